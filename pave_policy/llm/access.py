"""How an endpoint lets us in: what goes in the headers, and where the key came from."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pave_policy.llm.address import Address, read_address
from pave_policy.llm.secrets import Secrets
from pave_policy.llm.settings import ChatSettings
from voville_env.errors import InvalidValueError

_SCHEME = re.compile(r"(?:Bearer|Basic|Token|Key)\s+(.+)", re.IGNORECASE)
_NO_KEY = "none"
"""Sent to servers on this machine, which mostly want a key but not a particular one."""


@dataclass(frozen=True)
class Access:
    """Where requests go and what they carry.

    Attributes:
        address: The endpoint.
        headers: The headers set by the user.
        authorization: Value of the Authorization header; None leaves it out.
        origin: Where that value came from, in words; empty where no key is configured.
        note: What is configured but not sent, in words; mostly empty.
    """

    address: Address
    headers: Mapping[str, str] = field(repr=False)
    authorization: str | None = field(repr=False)
    origin: str
    note: str

    def secrets(self) -> Secrets:
        """Everything here that must not be shown.

        Returns:
            The key, the values of headers, and what the URL holds besides the address.
        """
        values = [*self.headers.values(), *self.address.query.values()]
        values += [self.address.user, self.address.password]
        if self.origin and self.authorization:
            values.append(self.authorization)
        credentials = [found[1] for value in values if (found := _SCHEME.match(value))]
        return Secrets([*values, *credentials])


def find_access(settings: ChatSettings) -> Access:
    """Finds the key and decides which of the credentials given is sent.

    Args:
        settings: Of the model.

    Returns:
        What requests carry; a header goes before the URL's user, and that before the key.

    Raises:
        InvalidValueError: If the key is missing or unusable; the message does not show it.
    """
    address = read_address(settings.base_url)
    headers = {name: value for name, value in settings.headers.items() if not _authorizes(name)}
    found = [(v, "the header Authorization") for n, v in settings.headers.items() if _authorizes(n)]
    if address.user or address.password:
        pair = f"{address.user}:{address.password}".encode()
        basic = f"Basic {base64.b64encode(pair).decode('ascii')}"
        found.append((basic, "the user name and password in base_url"))
    key, origin = _find_key(settings)
    if key:
        found.append((f"Bearer {key}", origin))
    if found:
        (value, origin), *unused = found
        note = "; ".join(f"{origin} is sent, not {name}" for _, name in unused)
        return Access(address, headers, value, origin, note)
    if any(name.lower() in ("api-key", "x-api-key") for name in headers):
        return Access(address, headers, None, "the header for the key", "")
    if address.is_near and (not settings.api_key_env or address.is_loopback):
        unset = f"{settings.api_key_env} is not set: no key is sent" if settings.api_key_env else ""
        return Access(address, headers, f"Bearer {_NO_KEY}", "", unset)
    raise InvalidValueError(_missing_key(settings, address))


def _authorizes(header: str) -> bool:
    return header.lower() == "authorization"


def _missing_key(settings: ChatSettings, address: Address) -> str:
    name = settings.api_key_env
    if name:
        # In small letters it may be a key that was given in place of a name.
        shown = repr(name) if name.isupper() else "no usual name (it is not shown)"
        return (
            f"api_key_env is {shown}, and no such environment variable is set; "
            f"{address.host} needs a key"
        )
    return (
        f"no key for {address.host}; allowed: the name of an environment variable in api_key_env, "
        "or of a file in api_key_file"
    )


def _find_key(settings: ChatSettings) -> tuple[str, str]:
    """The key and where it came from; the file goes before the variable."""
    if settings.api_key_file:
        origin = f"the file {settings.api_key_file}"
        return _checked(_first_line(settings.api_key_file), origin), origin
    if settings.api_key_env:
        origin = f"the environment variable {settings.api_key_env}"
        return _checked(os.environ.get(settings.api_key_env, "").strip(), origin), origin
    return "", ""


def _first_line(file: str) -> str:
    try:
        text = Path(file).expanduser().read_bytes().decode("utf-8-sig", errors="replace")
    except (OSError, RuntimeError, ValueError) as error:
        problem = getattr(error, "strerror", None) or type(error).__name__
        raise InvalidValueError(
            f"api_key_file is {file!r}; allowed: a readable file ({problem})"
        ) from error
    key = text.split("\n", 1)[0].strip()
    if not key:
        raise InvalidValueError(f"api_key_file is {file!r}; allowed: a file with the key on line 1")
    return key


def _checked(key: str, origin: str) -> str:
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise InvalidValueError(
            f"the key from {origin} has characters that no key has (it is not shown); "
            "allowed: one line of printable ASCII without spaces"
        )
    return key
