"""What a model's reply is read as, and which replies are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pave_policy.llm.answers import ANSWERS, Answer, ContextAnswer, CueAnswer
from pave_policy.llm.prompts import OPERATIONS, load_templates
from pave_policy.llm.reading import PLACEHOLDERS, UnreadableError, read_actions, read_answer
from pave_policy.llm.shapes import Shape, load_shapes, markdown_table
from pave_policy.records import TimedAction
from voville_env.errors import InvalidValueError, VovilleError

VALID: dict[str, dict[str, Any]] = {
    "elicit_threshold": {"threshold": 60, "reason": "Careful."},
    "perceive_context": {
        "authority_present": True,
        "authority_distance_tiles": 0,
        "peer_behaviors": ["A person runs."],
        "situational_cues": [{"type": "fire", "distance_tiles": 2, "severity": 95}],
        "scene_summary": "It burns.",
    },
    "assess_risk": {"risk": 40, "reason": "Near."},
    "assess_empirical": {"p_emp": 75, "n_observed": 4, "n_complying": 3},
    "assess_normative": {"p_norm": 80, "reason": "A firm rule."},
    "assess_benefit": {"benefit": 90, "reason": "Escape."},
    "assess_legitimacy": {
        "legitimacy": 92,
        "necessity": "It burns.",
        "proportionality": "One crossing.",
        "alternatives": "None.",
    },
    "generate_verdict": {"decision": "violate", "justification": "It burns.", "confidence": 90},
    "propagate_outcome": {
        "observed_behavior": "A person crosses on red.",
        "observed_outcome": "Nobody objects.",
        "rule_followed": False,
    },
    "rate_importance": {"importance": 10},
    "plan_day": {"plan": [{"activity": "Read.", "until": 1}, {"activity": "Eat.", "until": 9}]},
    "decompose_plan": {"parts": [{"activity": "Read.", "until": 1}]},
    "ask_focal_points": {"questions": ["Who?", "What?", "Why?"]},
    "draw_insights": {"insights": [{"insight": "They hurry.", "evidence": [1, 3]}]},
    "react": {"reaction": "wait", "reason": "It burns."},
}
RANGES = {
    **dict.fromkeys(("threshold", "risk", "p_emp", "p_norm", "benefit", "legitimacy"), (1, 100)),
    **dict.fromkeys(("n_observed", "n_complying", "authority_distance_tiles"), (0, 10_000)),
    **{"severity": (1, 100), "distance_tiles": (0, 10_000), "confidence": (0, 100)},
    **{"importance": (1, 10), "until": (1, 10_000)},
}
NO_LISTS: tuple[Any, ...] = ("none", 5, None, {})
# However slow the machine is.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# What replies are made of; random text hardly ever comes near an answer.
SCRAPS = st.sampled_from(
    [
        *("{", "}", "[", "]", '"', "'", "\\", ":", ",", "```", "```json\n", "\n", " ", "`"),
        *("<think>", "</think>", "<Reasoning>", "</REASONING>", "NaN", "-Infinity", "1e999"),
        *("true", "null", "72", "72.5", "-1", '"72"', '"inf"', '"decision"', '"comply"'),
        *('{"risk": 41, "reason": "x"}', '{"risk":', '"risk": 300,', '"reason": "y"', '{"answer":'),
        *("1. Look (5s)\n", "2. Walk (10s).\n", "3. ", "(5s)", "(7 sec)", "\ud800", "\u2028"),
    ]
)
REPLIES = st.lists(SCRAPS | st.text(max_size=5), max_size=12).map("".join)
PROSE = st.text(st.characters(exclude_characters="{}[]`<>", codec="utf-8")).map(
    lambda text: f" {text} "
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
    # Numbers and words near what is allowed.
    | st.integers(-1, 101) | st.integers(-1, 101).map(str) | st.sampled_from(["inf", "COMPLY "]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)  # fmt: skip


@st.composite
def near_answers(draw: st.DrawFn) -> tuple[str, str]:
    """An operation, and a valid answer in which one value or key is another."""
    operation = draw(st.sampled_from(sorted(VALID)))
    answer = dict(VALID[operation])
    key = draw(st.sampled_from(sorted(answer)))
    value = answer.pop(key)
    new_key = draw(st.sampled_from([key, key.upper(), key.replace("_", "-"), f"{key}s"]))
    answer[new_key] = draw(VALUES | st.just(value))
    return operation, json.dumps(answer)


def is_own_words(text: str) -> bool:
    return not any(words in " ".join(text.lower().split()) for words in PLACEHOLDERS)


@st.composite
def scored(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An operation that answers with a score and a reason, and a valid answer to it."""
    operation, key = draw(
        st.sampled_from([("elicit_threshold", "threshold"), ("assess_risk", "risk")])
    )
    # Letters and quotes of all kinds; no characters that a scanner may take for its own.
    # The words of a format line are refused as copied from the prompt; that has its own test.
    reason = st.text(min_size=1, max_size=20).filter(str.strip).filter(is_own_words)
    return operation, {key: draw(st.integers(1, 100)), "reason": draw(reason)}


def read(shape: Shape) -> Answer | tuple[TimedAction, ...]:
    if shape.operation == "emulate_action":
        return read_actions(shape.text)
    return read_answer(shape.text, shape.operation, shape.examples, shape.asked)


def refusal(text: str, operation: str = "assess_risk", **options: Any) -> str:
    with pytest.raises(UnreadableError) as caught:
        read_answer(text, operation, **options)
    return str(caught.value)


def changed(operation: str, **changes: Any) -> str:
    return json.dumps(VALID[operation] | changes)


def check_message(error: Exception) -> None:
    message = str(error)
    assert type(error) is UnreadableError and 0 < len(message) <= 200, message
    assert len(message.splitlines()) == 1
    message.encode()


def check_values(data: dict[str, Any]) -> None:
    """Checks what an answer holds against the table above, apart from the code that reads it."""
    for key, value in data.items():
        if key == "evidence":
            assert value and all(type(number) is int and number >= 1 for number in value)
        elif key in RANGES and value is not None:
            low, high = RANGES[key]
            assert type(value) is int and low <= value <= high, key
        elif isinstance(value, str):
            assert value.strip() and len(value) <= 2000
            value.encode()
        elif isinstance(value, tuple):
            for entry in value:
                check_values(entry if isinstance(entry, dict) else {"": entry})
        else:
            assert isinstance(value, bool) or key == "authority_distance_tiles", key


@pytest.mark.parametrize("shape", load_shapes(), ids=lambda shape: shape.name)
def test_every_published_shape_is_read_or_refused_as_it_says(shape: Shape) -> None:
    if shape.verdict == "refused":
        assert shape.value is None
        with pytest.raises(UnreadableError) as caught:
            read(shape)
        assert str(caught.value) == shape.why
        check_message(caught.value)
        return
    found = read(shape)
    if isinstance(found, tuple):
        assert [action.model_dump() for action in found] == shape.value
    else:
        told = json.loads(found.model_dump_json())
        if told.get("authority_distance_tiles", 0) is None:
            told["authority_distance_tiles"] = "inf"
        assert told == shape.value


def test_the_document_says_what_the_code_does(repository: Path) -> None:
    text = (repository / "docs" / "answers.md").read_text("utf-8")
    assert markdown_table() in text, "put the table that markdown_table() returns into the file"
    assert len({shape.name for shape in load_shapes()}) == len(load_shapes())
    for operation, model in ANSWERS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{operation}` |"))
        assert re.findall(r"`(\w+)` \(", row) == list(model.model_fields)


def test_a_cell_of_the_table_keeps_backticks_and_bars_apart() -> None:
    rows = {line.split(" | ")[0]: line for line in markdown_table().splitlines()}
    assert "```` ```json⏎{" in rows["| code block"]
    assert "comply \\| violate" in rows["| both decisions"]


def test_every_json_operation_has_an_answer_that_fits_its_prompt() -> None:
    assert list(ANSWERS) == [name for name in OPERATIONS if name != "emulate_action"]
    for operation, template in load_templates().items():
        for example in template.examples:
            reply = json.dumps(example)
            read_answer(reply, operation)
            assert "own example" in refusal(reply, operation, examples=template.examples)


@pytest.mark.parametrize("operation", sorted(VALID))
def test_each_operation_reads_its_own_answer(operation: str) -> None:
    answer = read_answer(json.dumps(VALID[operation]), operation)
    assert type(answer) is ANSWERS[operation]
    assert json.loads(answer.model_dump_json()) == VALID[operation]
    assert answer == ANSWERS[operation](**VALID[operation])
    for key in VALID[operation]:
        rest = {name: value for name, value in VALID[operation].items() if name != key}
        missing = f"{key} is missing" if rest else f"no JSON object with the key {key}"
        assert refusal(json.dumps(rest), operation) == missing


def test_an_unknown_operation_is_named_with_the_nearest() -> None:
    with pytest.raises(InvalidValueError, match=r"'assess_risks'.*did you mean 'assess_risk'"):
        read_answer("{}", "assess_risks")
    assert issubclass(UnreadableError, VovilleError) and issubclass(UnreadableError, ValueError)


@UNHURRIED
@given(st.sampled_from(sorted(VALID)), REPLIES)
def test_no_text_crashes_the_readers(operation: str, text: str) -> None:
    try:
        check_values(read_answer(text, operation).model_dump())
    except UnreadableError as error:
        check_message(error)
    try:
        actions = read_actions(text)
    except UnreadableError as error:
        check_message(error)
    else:
        assert 0 < len(actions) <= 12
        for action in actions:
            assert 0 < len(action.text) <= 300 and action.seconds in range(5, 61, 5)


@UNHURRIED
@given(near_answers())
def test_no_value_out_of_range_is_read(given_answer: tuple[str, str]) -> None:
    operation, text = given_answer
    try:
        check_values(read_answer(text, operation).model_dump())
    except UnreadableError as error:
        check_message(error)


ACCEPTED_WRAPPINGS: list[Callable[[str, str], str]] = [
    lambda text, operation: f"\n {text}\n",
    lambda text, operation: f"\ufeff{text}",
    lambda text, operation: f"```json\n{text}\n```",
    lambda text, operation: f"Sure!\n\n````\n{text}\n````\nDone.",
    lambda text, operation: f"My answer: {text} (see [1])",
    lambda text, operation: f'{{"{operation.upper()}": {text}}}',
    lambda text, operation: f'```\n{{"{ANSWERS[operation].__name__}": {text}}}\n```',
    lambda text, operation: f"<think>\n\n</think>\n\n{text}",
    lambda text, operation: f'<think>{{"risk": 1, "reason": "No."}}</think>```JSON\n{text}\n```',
    lambda text, operation: f"Hm.</reflection>{text}",
    lambda text, operation: f"{text}\n{text}",
    lambda text, operation: json.dumps({"extra": [1], **json.loads(text)}, indent=1),
]


@pytest.mark.parametrize("wrap", ACCEPTED_WRAPPINGS)
@UNHURRIED
@given(scored())
def test_an_accepted_wrapping_changes_no_value(
    wrap: Callable[[str, str], str], answer: tuple[str, dict[str, Any]]
) -> None:
    operation, values = answer
    # ASCII and without <: what the wrapping is for, not what the text says, is of interest here.
    text = json.dumps(values).replace("<", "\\u003c")
    assert read_answer(wrap(text, operation), operation).model_dump() == values


@UNHURRIED
@given(scored(), REPLIES, REPLIES, st.sampled_from(ACCEPTED_WRAPPINGS), st.integers(0, 2))
def test_an_example_of_the_prompt_is_never_the_answer(
    answer: tuple[str, dict[str, Any]],
    before: str,
    after: str,
    wrap: Callable[[str, str], str],
    spelling: int,
) -> None:
    operation, example = answer
    key, other = list(example)
    echo = [
        example,
        {other: example[other], key: float(example[key])},
        {key.upper(): str(example[key]), other: f"{example[other]} ", "extra": 1},
    ][spelling]
    text = before + wrap(json.dumps(echo), operation) + after
    try:
        found = read_answer(text, operation, [example]).model_dump()
        assert found[key] != example[key] or found[other].split() != example[other].split()
    except UnreadableError as error:
        check_message(error)
    own = json.dumps({key: 7, "reason": "Longer than the reason of any example here."})
    read_answer(wrap(own, operation), operation, [example])


@UNHURRIED
@given(scored(), PROSE, PROSE, st.sampled_from(["think", "Thinking", "REASONING", "reflection"]))
def test_a_draft_in_a_reasoning_block_is_never_the_answer(
    answer: tuple[str, dict[str, Any]], before: str, after: str, tag: str
) -> None:
    operation, values = answer
    draft = f"{before}{json.dumps(values)}{after}".replace("<", "\\u003c")
    assert read_answer(draft, operation).model_dump() == values
    open_block = f"{before}<{tag}>{draft}"
    assert "never closed" in refusal(open_block, operation)
    assert "never closed" in refusal(f"{open_block}</other>", operation)
    block = f"{open_block}</{tag.lower()}>"
    assert refusal(block + after.strip("\n"), operation)
    key = next(iter(values))
    later = read_answer(f'{block}{{"{key}": 1, "reason": "!"}}', operation)
    assert later.model_dump() == {key: 1, "reason": "!"}
    assert "never closed" in refusal(f"<{tag}>{block}{json.dumps(values)}", operation)


@pytest.mark.parametrize(
    "scrap",
    [
        *(
            "{",
            "```",
            "``` ",
            "{}",
            "[{",
            "[ ",
            "[{}]",
            '{"a":',
            '{"a":"\\"',
            '\\"',
            '"{',
            "<think ",
        ),
        *("<think>", "</think>", '{"risk":1}', "risk ", "{risk ", "1. ", "(5s)", "1. a (5s)\n"),
    ],
)
def test_the_longest_replies_are_refused_at_once(scrap: str) -> None:
    # Work that grows with the square of the length would take minutes here.
    text = (scrap * 100_000)[:100_000]
    refusal(text)
    refusal(f"x{text}")
    with pytest.raises(UnreadableError):
        read_actions(text)
    assert refusal(scrap * 1_000_000).endswith("allowed: up to 100000")


def test_what_is_vast_is_refused() -> None:
    assert refusal('{"risk": ' + "9" * 5000 + ', "reason": "Near."}') == "a number of 5000 digits"
    assert (
        refusal('{"risk": 40, "reason": "Near.", "more": -' + "9" * 100 + "}")
        == "a number of 101 digits"
    )
    nested = "[" * 50_000 + "]" * 49_000
    assert refusal('{"risk": 40, "reason": "Near.", "more": ' + nested + "}").endswith("too deeply")
    assert refusal(nested) == "no JSON object with the keys risk, reason"
    assert refusal('{"risk": 40, "reason": "Near \ud83d"}') == (
        "a character that cannot be written as UTF-8"
    )


def test_texts_and_lists_have_limits_and_are_kept_as_they_are() -> None:
    kept = " Near\u2028and\u2029armed,\u0085\r\nI \U0001f600 say. "
    assert read_answer(changed("assess_risk", reason=kept), "assess_risk").model_dump() == {
        "risk": 40,
        "reason": kept,
    }
    read_answer(changed("assess_risk", reason="x" * 2000), "assess_risk")
    message = refusal(changed("assess_risk", risk="x" * 2000))
    assert message.startswith("risk is 'xxx") and len(message) < 100
    assert "2001 characters" in refusal(changed("assess_risk", reason="x" * 2001))
    operation = "perceive_context"
    cue = VALID[operation]["situational_cues"][0]
    for key, entry, most in (("peer_behaviors", "x" * 300, 20), ("situational_cues", cue, 8)):
        read_answer(changed(operation, **{key: [entry] * most}), operation)
        message = refusal(changed(operation, **{key: [entry] * (most + 1)}), operation)
        assert message == f"{key} has {most + 1} entries; allowed: up to {most}"
        for wrong in NO_LISTS:
            message = refusal(changed(operation, **{key: wrong}), operation)
            assert message.endswith("allowed: a list")
    assert "301" in refusal(changed(operation, peer_behaviors=["x" * 301]), operation)
    assert "situational_cues.0 is 'fire'" in refusal(
        changed(operation, situational_cues=["fire"]), operation
    )
    far = [cue | {"distance_tiles": "inf"}]
    assert "distance_tiles" in refusal(changed(operation, situational_cues=far), operation)
    short = changed("propagate_outcome", observed_behavior="a " * 19)
    read_answer(short, "propagate_outcome")


@pytest.mark.parametrize(
    "value", [0, 101, -5, "072", "7 ", "+7", "\u0667", "", [], {}, 72.5, False]
)
def test_a_score_is_a_whole_number_from_1_to_100(value: Any) -> None:
    for operation, key in (("assess_risk", "risk"), ("elicit_threshold", "threshold")):
        message = refusal(changed(operation, **{key: value}), operation)
        assert message.startswith(f"{key} is ") and message.endswith("from 1 to 100")


@pytest.mark.parametrize("value", [1, 0, "yes", "true ", None, 1.0, []])
def test_a_boolean_is_one(value: Any) -> None:
    message = refusal(changed("propagate_outcome", rule_followed=value), "propagate_outcome")
    assert message.endswith("allowed: true or false")


@pytest.mark.parametrize(
    "value", ["comply|violate", "", "Decision: comply", True, 1, None, ["comply"]]
)
def test_a_decision_is_one_of_two_words(value: Any) -> None:
    message = refusal(changed("generate_verdict", decision=value), "generate_verdict")
    assert message.endswith("allowed: comply or violate")


def test_the_distance_agrees_with_the_presence_of_an_authority() -> None:
    operation = "perceive_context"
    for distance in ("inf", None):
        told = changed(operation, authority_present=False, authority_distance_tiles=distance)
        answer = read_answer(told, operation).model_dump()
        assert answer["authority_distance_tiles"] is None
        told = changed(operation, authority_distance_tiles=distance)
        assert "contradict" in refusal(told, operation)
    assert "contradict" in refusal(changed(operation, authority_present=False), operation)
    for wrong in (-1, "far", 1.5, True, 10_001):
        told = changed(operation, authority_distance_tiles=wrong)
        assert "authority_distance_tiles is" in refusal(told, operation)


def test_a_piece_that_may_have_been_the_answer_spoils_the_others() -> None:
    good, other = json.dumps(VALID["assess_risk"]), '{"risk": 90, "reason": "Near."}'
    for piece in (
        *(other, f"[{other}, 1]", f"[1, {other}]", f"```\n[1, {other}, 2]\n```", "{risk: 90}"),
        *(f"{{{other}}}", f'{{"answer": {other},}}', "{'Risk' :9}", f'{{"x": [{other}]}}'),
    ):
        assert refusal(f"{good} {piece}") and refusal(f"{piece} {good}"), piece
    for piece in ("{}", "[1]", "{risk}", "a } b", "```\nrisk\n```", '{"x": {"y": "risk: 90"}}'):
        assert read_answer(f"{good} {piece}", "assess_risk").model_dump() == VALID["assess_risk"]
        assert read_answer(f"{piece} {good}", "assess_risk").model_dump() == VALID["assess_risk"]


@pytest.mark.parametrize(
    "piece",
    ["Here: [{}, 1]", "Here: [1, {}]", "[1, {}, 2]", "````\n```\n{}\n```\n````", "({{{}}})"],
)
def test_an_object_inside_something_else_is_not_the_answer(piece: str) -> None:
    good = json.dumps(VALID["assess_risk"])
    read_answer(good, "assess_risk")
    assert refusal(piece.format(good))


def test_keys_are_recognised_in_any_spelling_where_json_is_broken() -> None:
    good = json.dumps(VALID["assess_empirical"])
    for key in ("n_observed", "N Observed", "n-observed"):
        text = f"{good} {{'{key}': 3}}"
        assert refusal(text, "assess_empirical") == "an object that is not strict JSON"


def test_an_example_that_is_no_whole_answer_is_an_echo_as_well() -> None:
    example = {"risk": 30, "why": "As shown."}
    text = '{"why": "As  shown.", "risk": 30} ' + json.dumps(VALID["assess_risk"])
    assert read_answer(text, "assess_risk", [example]).model_dump() == VALID["assess_risk"]


def test_answers_can_be_built_from_answers() -> None:
    values = VALID["perceive_context"]
    cues = tuple(CueAnswer(**cue) for cue in values["situational_cues"])
    built = ContextAnswer(**values | {"situational_cues": cues})
    assert built == read_answer(json.dumps(values), "perceive_context")


@UNHURRIED
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=30).map(
                str.strip
            ),
            st.sampled_from(range(5, 61, 5)),
        ).filter(lambda entry: bool(entry[0]) and not re.search(r"[()<>]", entry[0])),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["s", " s", "sec", " seconds"]),
    st.sampled_from(["", ".", ".  "]),
    st.sampled_from(["\n", "\r\n", "\n\n", "\r"]),
)
def test_a_list_of_actions_is_read_as_written(
    entries: list[tuple[str, int]], unit: str, stop: str, line_end: str
) -> None:
    lines = [f"{n}. {text} ({s}{unit}){stop}" for n, (text, s) in enumerate(entries, 1)]
    expected = tuple(TimedAction(text=text, seconds=seconds) for text, seconds in entries)
    text = line_end.join(lines)
    assert read_actions(text) == expected
    assert read_actions(f"Then:\n```text\n{text}\n```\nThat is all.") == expected
    assert read_actions(f"<think>1. No (5s)</think>{text}") == expected
    for bad in (f"{text}\n{text}", f"<think>\n{text}", f"```\n{text}", f"2{text[1:]}"):
        with pytest.raises(UnreadableError):
            read_actions(bad)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "2) Walk (5s)",
            "2.Walk (5s)",
            "2. (5s)",
            "2. Walk (0s)",
            "2. Walk (65s)",
            "2. Walk (05s)",
        ),
        *("2. Walk (5)", "2. Walk (5min)", "2. Walk (-5s)", "2. Walk (5s) (10s)", "2. Walk (5s)!"),
        *(
            "2. Walk 5s",
            "0. Walk (5s)",
            "2. Walk (5s), then rest",
            f"2. {'x' * 301} (5s)",
            "**(5s)**",
        ),
    ],
)
def test_a_line_that_may_be_an_action_is_not_passed_over(line: str) -> None:
    good = "1. Look (5s)"
    assert read_actions(f"{good}\nNo more.\n") == (TimedAction(text="Look", seconds=5),)
    with pytest.raises(UnreadableError) as caught:
        read_actions(f"{good}\n{line}")
    check_message(caught.value)


def test_only_line_breaks_separate_actions() -> None:
    for mark in "\u2028\u2029\u0085\x0c":
        (action,) = read_actions(f"1. Look{mark}left (5s)")
        assert action.text == f"Look{mark}left"


def test_an_empty_or_vast_list_is_refused() -> None:
    for text in ("", " \n", "x" * 100_001, "1. \ud800 (5s)", "Nothing to do.", "<think>1. A (5s)"):
        with pytest.raises(UnreadableError):
            read_actions(text)
