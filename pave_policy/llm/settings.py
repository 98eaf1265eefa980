"""Which model is asked, where, and how."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pave_policy.llm.address import read_address
from pave_policy.llm.presets import Preset, load_presets
from voville_env.errors import InvalidValueError, invalid

_UNSHOWN = ("base_url", "headers", "api_key_env")
"""Options whose values may hold secrets, the last by mistake."""
_OWN_PARAMETERS = (
    *("max_completion_tokens", "max_tokens", "messages", "model", "n", "response_format"),
    *("seed", "stream", "temperature", "top_p"),
)
_DECISIVE = (
    *("model", "temperature", "top_p", "seed", "variant"),
    *("paper_inputs", "paper_token_limits", "json_mode"),
)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class ChatSettings(BaseModel):
    """Everything about a model and how it is asked.

    Attributes:
        preset: The preset these settings came from.
        base_url: The endpoint. A query and a user name in it are sent but never shown.
        model: As the endpoint calls it.
        api_key_env: The environment variable that holds the key.
        api_key_file: A file with the key on its first line; goes before the variable.
        headers: Further headers. Their values are hidden wherever they would be shown.
        embedding_model: The model that embeds for the generative agent; without one its vectors
            are made here.
        temperature: None leaves the choice to the endpoint, here and below.
        top_p: Nucleus sampling.
        seed: For endpoints that take one.
        concurrency: Requests in flight at most.
        timeout: Seconds for one attempt.
        retries: Further attempts after passing troubles.
        max_calls: Requests that the run may send, all attempts counted.
        max_tokens_total: Tokens that the run may use, sent and received.
        max_cost: US dollars that the run may cost, by the prices below.
        price_in: US dollars for a million tokens sent.
        price_out: US dollars for a million tokens received.
        variant: Name of the prompts to use in place of the standard ones.
        paper_inputs: Whether the prompts get exactly the inputs that the paper lists.
        paper_token_limits: Whether replies are limited to the lengths in the paper.
        json_mode: Whether the endpoint is asked to write JSON only, where JSON is expected.
        extra_body: Further parameters of the request, for what this endpoint alone knows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    preset: str | None = None
    base_url: str = Field(repr=False)
    model: str = Field(min_length=1, pattern=r"^\S(.*\S)?$")
    api_key_env: str = Field(default="", pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$", max_length=64)
    api_key_file: str = ""
    headers: Mapping[str, str] = Field(default={}, repr=False)
    embedding_model: str = Field(default="", pattern=r"^(\S(.*\S)?)?$")
    temperature: float | None = Field(default=0.0, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    concurrency: int = Field(default=8, ge=1, le=1024)
    timeout: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    retries: int = Field(default=4, ge=0, le=100)
    max_calls: int | None = Field(default=None, ge=1)
    max_tokens_total: int | None = Field(default=None, ge=1)
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    price_in: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    price_out: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    variant: str = ""
    paper_inputs: bool = False
    paper_token_limits: bool = False
    json_mode: bool = False
    extra_body: Mapping[str, Any] = Field(default={})

    def __init__(self, **options: Any) -> None:
        """Checks the options.

        Args:
            **options: The attributes above.

        Raises:
            InvalidValueError: If one is unknown or not allowed; nothing secret is shown.
        """
        try:
            super().__init__(**options)
            return
        except ValidationError as error:
            # Raised outside, or the caller would find the options, keys included, in its context.
            problem = _in_words(error, options)
        raise problem

    @field_validator("preset")
    @classmethod
    def _is_known(cls, preset: str | None) -> str | None:
        if preset is not None and preset not in load_presets():
            raise invalid("preset", preset, load_presets())
        return preset

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        read_address(url)
        return url

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError("names a header with characters that no header's name has")
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"gives {name} a value that is not one line of printable ASCII")
        return dict(headers)

    @field_validator("extra_body")
    @classmethod
    def _adds_only(cls, extra: Mapping[str, Any]) -> Mapping[str, Any]:
        if own := [name for name in _OWN_PARAMETERS if name in extra]:
            raise ValueError(f"sets {', '.join(own)}; allowed: parameters without their own option")
        try:
            json.dumps(extra, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError("has values that JSON cannot write") from None
        return dict(extra)

    @model_validator(mode="after")
    def _can_be_priced(self) -> ChatSettings:
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("price_in and price_out: allowed are both or neither")
        if self.max_cost is not None and self.price_in is None:
            raise ValueError(f"max_cost is {self.max_cost!r}, which needs price_in and price_out")
        return self

    def identity(self) -> dict[str, Any]:
        """What decides the answers.

        Returns:
            JSON-ready values; no key, header, query, port or path.
        """
        values = {name: getattr(self, name) for name in _DECISIVE}
        if self.embedding_model:
            values["embedding_model"] = self.embedding_model
        service = read_address(self.base_url).service
        return {**values, "service": service, "extra_body": dict(self.extra_body)}

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        shown = [("base_url", read_address(self.base_url).base), ("headers", sorted(self.headers))]
        return [*super().__repr_args__(), *shown]

    __str__ = BaseModel.__repr__


def chat_settings(preset: str | None = None, **options: Any) -> ChatSettings:
    """Makes the settings of a preset, or of none.

    A preset's key and prices hold only for its own service, and the prices only for its model.

    Args:
        preset: One of `load_presets`.
        **options: Those of `ChatSettings`, in place of the preset's. None is as good as left out,
            but for `temperature`, which it leaves to the endpoint.

    Returns:
        The settings.

    Raises:
        InvalidValueError: If the preset is unknown, or an option is unknown or not allowed.
    """
    given = {
        name: value for name, value in options.items() if value is not None or name == "temperature"
    }
    if preset is None:
        return ChatSettings(**given)
    known = load_presets().get(preset)
    taken = {} if known is None else _taken(known, given)
    return ChatSettings(**{**taken, **given, "preset": preset})


def _taken(preset: Preset, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a preset adds to the options that were given."""
    names = ["base_url", "model", "concurrency"]
    url = str(given.get("base_url", preset.base_url))
    if read_address(url).service == read_address(preset.base_url).service:
        names.append("api_key_env")
        if given.get("model", preset.model) == preset.model:
            names += ["price_in", "price_out"]
    return {name: getattr(preset, name) for name in names if getattr(preset, name) != ""}


def _in_words(error: ValidationError, options: Mapping[str, Any]) -> InvalidValueError:
    """The first problem as one of our own errors."""
    problems = error.errors(include_url=False, include_context=False)
    unknown = (item for item in problems if item["type"] == "extra_forbidden")
    problem = next(unknown, problems[0])  # a misspelt option is why another seems to be missing
    name = ".".join(str(part) for part in problem["loc"])
    option = name.partition(".")[0]
    said = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        return invalid("option", option, ChatSettings.model_fields)
    if problem["type"] == "missing":
        return InvalidValueError(f"{option} is missing; it has no default")
    if problem["type"] == "value_error":
        begins_with_it = not option or said.startswith(option)
        return InvalidValueError(said if begins_with_it else f"{option} {said}")
    shown = "" if option in _UNSHOWN else f" is {options.get(option)!r}"
    allowed = said.removeprefix("Input should be ").removeprefix("String should ")
    return InvalidValueError(f"{name}{shown}; allowed: {allowed}")
