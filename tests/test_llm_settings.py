"""Settings of a chat model: presets, what is refused, what identifies answers, what is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pave_policy.llm.access import find_access
from pave_policy.llm.address import read_address
from pave_policy.llm.budget import Budget, OverBudgetError
from pave_policy.llm.chat import Chat, make_chat
from pave_policy.llm.presets import load_presets
from pave_policy.llm.secrets import MASK, Secrets
from pave_policy.llm.settings import ChatSettings, chat_settings
from pave_policy.llm.transport import Endpoint
from voville_env.errors import InvalidValueError

LOCAL = "http://127.0.0.1:8000/v1"
CANARY = "c4nary-S3cret/of+the=mine"


def settings(**options: Any) -> ChatSettings:
    return chat_settings(**{"base_url": LOCAL, "model": "m", **options})


def refusal(**options: Any) -> str:
    with pytest.raises(InvalidValueError) as caught:
        settings(**options)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value)


def test_presets_hold_the_models_of_the_paper_and_local_servers() -> None:
    models = {name: preset.model for name, preset in load_presets().items()}
    assert models == {
        "gpt-4o": "gpt-4o-2024-08-06",
        "gpt-4o-mini": "gpt-4o-mini-2024-07-18",
        "claude-3-5-sonnet": "claude-3-5-sonnet-20241022",
        "llama-3-70b": "meta-llama/Meta-Llama-3-70B-Instruct",
        "vllm": "",
        "ollama": "",
        "llama-cpp": "",
    }


@pytest.mark.parametrize("name", load_presets())
def test_every_preset_makes_settings(name: str) -> None:
    preset = load_presets()[name]
    made = chat_settings(name, model=preset.model or "some-model")
    assert made.preset == name
    assert made.base_url == preset.base_url
    assert made.api_key_env == preset.api_key_env
    assert made.concurrency == preset.concurrency
    assert (made.price_in, made.price_out) == (preset.price_in, preset.price_out)
    assert preset.price_note
    assert preset.title


def test_a_server_preset_needs_a_model() -> None:
    with pytest.raises(InvalidValueError, match="model is missing"):
        chat_settings("ollama")


def test_options_go_before_the_preset_and_none_leaves_it() -> None:
    made = chat_settings("gpt-4o", temperature=0.25, concurrency=3, top_p=None, price_in=None)
    assert (made.temperature, made.concurrency, made.top_p, made.price_in) == (0.25, 3, None, 2.5)


def test_prices_hold_for_their_model_only() -> None:
    made = chat_settings("gpt-4o", model="another")
    assert (made.price_in, made.price_out) == (None, None)


def test_a_key_goes_to_its_own_service_only() -> None:
    assert chat_settings("gpt-4o", base_url="https://elsewhere.test/v1").api_key_env == ""
    assert chat_settings("gpt-4o", base_url="https://api.openai.com").api_key_env != ""
    made = chat_settings("gpt-4o", base_url="https://elsewhere.test", api_key_env="MINE")
    assert made.api_key_env == "MINE"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temprature": 0.5}, "option is 'temprature'; allowed: preset, .*mean 'temperature'"),
        ({"preset": "gpt4o"}, "preset is 'gpt4o'; allowed: gpt-4o, .*did you mean 'gpt-4o"),
        ({"model": ""}, "model is ''"),
        ({"temperature": -0.5}, "temperature is -0.5; allowed: greater than or equal to 0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": "0"}, "temperature is '0'; allowed: a valid number"),
        ({"temperature": True}, "temperature is True"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": 1025}, "concurrency is 1025; allowed: less than or equal to 1024"),
        ({"concurrency": True}, "concurrency is True"),
        ({"timeout": 0}, "timeout is 0"),
        ({"retries": -1}, "retries is -1"),
        ({"max_calls": 0}, "max_calls is 0"),
        ({"max_tokens_total": 0}, "max_tokens_total is 0"),
        ({"max_cost": 1.0}, "max_cost is 1.0, which needs price_in and price_out"),
        ({"price_in": 1.0}, "price_in and price_out: allowed are both or neither"),
        ({"json_mode": "yes"}, "json_mode is 'yes'"),
        ({"headers": {"X Y": "z"}}, "headers names a header with"),
        ({"extra_body": {"seed": 1, "top_k": 2}}, "extra_body sets seed; allowed"),
        ({"extra_body": {"top_k": float("inf")}}, "extra_body has values that JSON cannot write"),
    ],
)
def test_what_is_not_allowed_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        settings(**options)


@pytest.mark.parametrize(
    "url",
    ["", "api.test/v1", "ftp://api.test/v1", "file:///etc/x", "http://", "http://h:port/v1", "h:1"],
)
def test_only_web_addresses_are_allowed(url: str) -> None:
    assert refusal(base_url=url).startswith(f"base_url is {url!r}; allowed: http:// or https://")


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": f"ftp://me:{CANARY}@h/v1"},
        {"base_url": f"h/v1?key={CANARY}"},
        {"base_url": f"http://me:{CANARY}@:9/v1"},
        {"base_url": f"http://me:x/y@h/v1#{CANARY}"},
        {"headers": {"X-Key": f"{CANARY}\n"}},
        {"headers": {"X-Key": f"{CANARY}é"}},
        {"headers": f"X-Key: {CANARY}"},
        {"api_key_env": CANARY},
        {"headers": {"X-Key": CANARY}, "extra": 1},
        {"headers": {"X-Key": CANARY}, "max_cost": 1.0},
    ],
)
def test_refusals_show_nothing_secret(options: dict[str, Any]) -> None:
    assert CANARY not in refusal(**options)


def test_settings_show_nothing_secret_and_do_not_change() -> None:
    url = f"https://me:{quote(CANARY, safe='')}@api.test:81/v1?key={CANARY}"
    made = settings(base_url=url, headers={"X-Key": CANARY})
    for shown in (repr(made), str(made), f"{made}", str([made]), str(made.identity())):
        assert "c4nary" not in shown
        assert "me:" not in shown
    assert "base_url='https://api.test:81/v1', headers=['X-Key']" in repr(made)
    with pytest.raises(ValueError, match="frozen"):
        made.model = "other"  # type: ignore[misc]


def test_identity_holds_what_decides_answers_and_nothing_else() -> None:
    plain = settings()
    assert plain.identity() == {
        "model": "m",
        "service": "loopback",
        "temperature": 0.0,
        "top_p": None,
        "seed": None,
        "variant": "",
        "paper_inputs": False,
        "paper_token_limits": False,
        "json_mode": False,
        "extra_body": {},
    }
    decisive: dict[str, Any] = {
        **{"model": "n", "temperature": 0.5, "top_p": 0.5, "seed": 3, "variant": "v"},
        **{"paper_inputs": True, "paper_token_limits": True, "json_mode": True},
        **{"extra_body": {"top_k": 5}, "base_url": "http://other.test/v1"},
    }
    changed = [settings(**{name: value}).identity() for name, value in decisive.items()]
    assert all(identity != plain.identity() for identity in changed)
    indifferent: dict[str, Any] = {
        **{"concurrency": 3, "timeout": 5.0, "retries": 0, "max_calls": 9, "max_tokens_total": 9},
        **{"price_in": 1.0, "price_out": 1.0, "max_cost": 1.0, "headers": {"X": "y"}},
        **{"api_key_env": "SOME", "api_key_file": "some"},
    }
    assert settings(**indifferent).identity() == plain.identity()
    for url in ("http://localhost:9/x?k=v", "https://[::1]/v1", "http://127.0.0.1"):
        assert settings(base_url=url).identity() == plain.identity()


@pytest.mark.parametrize(
    "url",
    [
        *("https://API.test/v1", "https://api.test/v1/", "https://api.test/v1//"),
        *("https://api.test/v1/chat/completions", "https://api.test/v1/chat/completions/?a=b"),
        *("https://me:pw@api.test/v1", " https://api.test/v1"),
    ],
)
def test_addresses_are_read_in_every_spelling(url: str) -> None:
    assert read_address(url).base == "https://api.test/v1"


def test_secret_parts_of_an_address_are_kept_apart() -> None:
    address = read_address("http://us%40er:p%2Fw@[::1]:80/?a=1%202&b=")
    assert address.base == "http://[::1]:80"
    assert (address.user, address.password) == ("us@er", "p/w")
    assert address.query == {"a": "1 2", "b": ""}
    assert repr(address) == "Address(base='http://[::1]:80', host='::1')"
    with pytest.raises(InvalidValueError, match="each name once"):
        read_address("http://h/?a=1&a=2")


def test_redaction_finds_every_spelling() -> None:
    value = 'p/w+"x" <é>'
    secrets = Secrets([value, "abc", " "])
    said = (
        'p/w+"x" <é>',
        "p%2Fw%2B%22x%22%20%3C%C3%A9%3E",
        "p%2fw%2b%22x%22%20%3c%c3%a9%3e",
        "p%2Fw%2B%22x%22+%3C%C3%A9%3E",
        'p/w+\\"x\\" <\\u00e9>',
        'p\\/w+\\"x\\" <é>',
        "p/w+&quot;x&quot; &lt;é&gt;",
    )
    for spelling in said:
        assert secrets.redact(f"a {spelling} abc") == f"a {MASK} abc"
    assert value not in repr(secrets)
    assert Secrets().redact("as it is") == "as it is"


def test_a_longer_secret_is_hidden_whole() -> None:
    assert Secrets(["abcdefgh", "abcdefghijkl"]).redact("abcdefghijkl abcdefgh") == f"{MASK} {MASK}"


def test_the_key_comes_from_the_file_then_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "from-env")
    file = tmp_path / "key"
    file.write_text("\ufeff from-file \nsecond line\n", encoding="utf-8")
    both = find_access(settings(api_key_env="SOME_KEY", api_key_file=str(file)))
    assert (both.authorization, both.origin) == ("Bearer from-file", f"the file {file}")
    one = find_access(settings(api_key_env="SOME_KEY"))
    assert one.authorization == "Bearer from-env"
    assert one.origin == "the environment variable SOME_KEY"
    assert "from-env" not in repr(one)
    assert one.secrets().redact("x from-env") == f"x {MASK}"
    none = find_access(settings(api_key_env="NOT_SET_ANYWHERE"))
    assert (none.authorization, none.origin) == ("Bearer none", "")
    assert none.secrets().redact("none") == "none"


def test_what_is_not_sent_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "from-env")
    url = "https://me:pw@api.test/v1"
    access = find_access(settings(base_url=url, api_key_env="SOME_KEY"))
    assert access.authorization == "Basic bWU6cHc="
    assert access.note == (
        "the user name and password in base_url is sent, not the environment variable SOME_KEY"
    )
    given = find_access(settings(base_url=url, headers={"authorization": "Custom x"}))
    assert (given.authorization, dict(given.headers)) == ("Custom x", {})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no key for api.test; allowed: .* api_key_env, .* api_key_file"),
        ({"api_key_env": "NOT_SET"}, "api_key_env is 'NOT_SET', and no such .* api.test needs a"),
        ({"api_key_env": "EMPTY"}, "api_key_env is 'EMPTY'"),
        ({"api_key_env": "UMLAUT"}, "the key from the environment variable UMLAUT has characters"),
        ({"api_key_env": "TWO_LINES"}, "environment variable TWO_LINES has characters"),
        ({"api_key_file": "missing"}, "api_key_file is 'missing'; allowed: a readable file"),
        ({"api_key_file": "."}, "api_key_file is '.'; allowed: a readable file"),
        ({"api_key_file": "empty"}, "api_key_file is 'empty'; allowed: a file with the key"),
        ({"api_key_file": "binary"}, "the key from the file binary has characters"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_unseen(
    options: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").write_text("\nkey on line two\n", encoding="utf-8")
    Path("binary").write_bytes(CANARY.encode() + b"\xff\xfe")
    monkeypatch.setenv("EMPTY", " ")
    monkeypatch.setenv("UMLAUT", f"{CANARY}ü")
    monkeypatch.setenv("TWO_LINES", f"{CANARY}\n{CANARY}")
    with pytest.raises(InvalidValueError, match=words) as caught:
        find_access(settings(base_url="https://api.test/v1", **options))
    assert CANARY not in str(caught.value)


def test_a_key_given_as_a_variable_is_not_shown() -> None:
    with pytest.raises(InvalidValueError, match="no usual name") as caught:
        find_access(settings(base_url="https://api.test/v1", api_key_env="c4naryKeyWithoutDash"))
    assert "c4nary" not in str(caught.value)


def test_a_budget_reserves_and_settles() -> None:
    budget = Budget(settings(price_in=2.0, price_out=10.0), (3, 100, 0.5))
    reserved = budget.reserve("x" * 300, 50)
    assert (budget.calls, budget.tokens) == (4, 250)
    assert budget.cost == pytest.approx(0.5 + (200 + 500) / 1e6)
    budget.settle(reserved, 10, 5)
    assert (budget.calls, budget.tokens) == (4, 115)
    assert budget.cost == pytest.approx(0.5 + 70 / 1e6)
    budget.settle(budget.reserve("x" * 300, 50), None, 7)
    assert (budget.calls, budget.tokens) == (5, 222)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_calls": 2}, "max_calls is 2: 2 are used or in flight"),
        ({"max_tokens_total": 59}, "max_tokens_total is 59: 40 are used .* take 20 more"),
        ({"max_cost": 59e-6, "price_in": 1.0, "price_out": 1.0}, "max_cost is 5.9e-05"),
    ],
)
def test_a_budget_is_never_exceeded(limits: dict[str, Any], words: str) -> None:
    budget = Budget(settings(**limits), (0, 0, 0.0))
    for _ in range(2):
        budget.reserve("x" * 30, 10)
    with pytest.raises(OverBudgetError, match=words):
        budget.reserve("x" * 30, 10)
    assert (budget.calls, budget.tokens) == (2, 40)


def test_only_the_temperature_can_be_left_to_the_endpoint() -> None:
    options = {"base_url": "http://127.0.0.1/v1", "model": "m"}
    left = chat_settings(**options, temperature=None, concurrency=None)
    assert (left.temperature, left.concurrency) == (None, 8)
    assert chat_settings(**options).temperature == 0
    again = make_chat(**Chat(left, offline=True).connection(), offline=True)
    assert again.settings() == Chat(left, offline=True).settings()


@pytest.mark.parametrize("host", ["192.168.1.5", "10.0.0.2", "gpubox"])
def test_the_own_network_needs_no_key(host: str) -> None:
    Endpoint(chat_settings(base_url=f"http://{host}:8000", model="m"))
    with pytest.raises(InvalidValueError, match="UNSET_KEY"):
        Endpoint(chat_settings(base_url=f"http://{host}:8000", model="m", api_key_env="UNSET_KEY"))


def test_an_unset_variable_is_told_where_no_key_is_needed() -> None:
    options = {"base_url": "http://127.0.0.1:1", "model": "m", "api_key_env": "UNSET_KEY"}
    assert Endpoint(chat_settings(**options)).notes == ["UNSET_KEY is not set: no key is sent"]


def test_a_misspelt_option_is_named_before_what_is_missing() -> None:
    with pytest.raises(InvalidValueError, match=r"modle.*did you mean 'model'"):
        chat_settings(base_url="http://127.0.0.1:1", modle="m")


def test_a_presets_prices_do_not_follow_it_to_another_host() -> None:
    assert chat_settings("gpt-4o").price_in == 2.5
    assert chat_settings("gpt-4o", base_url="http://127.0.0.1:1").price_in is None


@pytest.mark.parametrize(
    "write",
    [
        lambda key: key.replace("+", "\\u002B"),
        lambda key: json.dumps(json.dumps(key)),
        lambda key: "".join(f"\\u{ord(letter):04X}" for letter in key),
        lambda key: "".join(f"%{ord(letter):02x}" for letter in key),
    ],
)
def test_a_secret_is_hidden_however_it_is_escaped(write: Any) -> None:
    key = 'sk-"abc+def/ghi=12'
    shown = Secrets([key]).redact(f"with {write(key)} in it")
    assert MASK in shown and "ghi" not in shown and b"ghi".hex() not in shown
