"""Where an endpoint is, read from its base URL; what is secret in the URL is kept apart."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from voville_env.errors import InvalidValueError

CHAT_PATH = "/chat/completions"


@dataclass(frozen=True)
class Address:
    """The parts of a base URL.

    Attributes:
        base: Scheme, host, port and path, without a slash at the end; safe to show.
        host: In lower case.
        query: What goes along with every request.
        user: User name in the URL.
        password: Password in the URL.
    """

    base: str
    host: str
    query: dict[str, str] = field(default_factory=dict, repr=False)
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_near(self) -> bool:
        """Whether it is on this machine or in its network, where often no key is asked for."""
        try:
            return self.is_loopback or ipaddress.ip_address(self.host).is_private
        except ValueError:
            return "." not in self.host

    @property
    def service(self) -> str:
        """The host; one name for this machine, however it is called and whatever the port."""
        return "loopback" if self.is_loopback else self.host


def read_address(url: str) -> Address:
    """Reads a base URL, with or without `/v1`, a slash at the end or the path of the chat endpoint.

    Args:
        url: Such as ``"https://api.openai.com/v1"``.

    Returns:
        Its parts.

    Raises:
        InvalidValueError: If it is no usable http or https URL; the message shows nothing secret.
    """
    problem = f"base_url is {_shown(url)}; allowed: http:// or https:// with a host, a port if any"
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:  # its text would quote the URL
        parts, port = SplitResult("", "", "", "", ""), None
    host = parts.hostname
    if parts.scheme not in ("http", "https") or not host or not url.strip().isprintable():
        raise InvalidValueError(problem)
    path = parts.path.rstrip("/").removesuffix(CHAT_PATH).rstrip("/")
    place = f"[{host}]" if ":" in host else host
    if port is not None:
        place += f":{port}"
    return Address(
        base=f"{parts.scheme}://{place}{path}",
        host=host,
        query=_read_query(parts.query),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def _read_query(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    if len(pairs) != len(dict(pairs)):
        names = ", ".join(name for name, _ in pairs)
        raise InvalidValueError(f"query of base_url names {names}; allowed: each name once")
    return dict(pairs)


def _shown(url: str) -> str:
    """A URL that may be anything: shown whole only where it can hold nothing secret."""
    if any(mark in url for mark in "@?#"):
        scheme, found, _ = url.partition("://")
        return f"'{scheme}://[…]'" if found and scheme.isalnum() else "unreadable"
    return repr(url)
