"""Models and servers that are known by a short name; the data are in `presets.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict


class Preset(BaseModel):
    """A model, or a server whose model the user names.

    Attributes:
        title: For people.
        base_url: The endpoint.
        model: As the endpoint calls it; empty where the user must say.
        api_key_env: The environment variable that commonly holds the key.
        price_in: US dollars for a million tokens sent; None where nothing is charged by token.
        price_out: The same for tokens received.
        price_note: What these prices are and of when.
        concurrency: Requests in flight that the endpoint can be expected to bear.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    title: str
    base_url: str
    model: str = ""
    api_key_env: str = ""
    price_in: float | None = None
    price_out: float | None = None
    price_note: str = ""
    concurrency: int = 8


@cache
def load_presets() -> Mapping[str, Preset]:
    """Reads the presets.

    Returns:
        By name, in the order of the file.
    """
    text = files("pave_policy.llm").joinpath("presets.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)
    return MappingProxyType({name: Preset(**entry) for name, entry in entries.items()})
