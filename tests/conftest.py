"""What every test runs under: one thread per library, no proxies, no network beyond loopback."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Set before NumPy and numba are first imported, which is when they are read.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
# Two, so that tests can compare one thread with two on any machine.
os.environ["NUMBA_NUM_THREADS"] = "2"
for _name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
    os.environ.pop(_name, None)
    os.environ.pop(_name.lower(), None)
# A key or an endpoint of the person who runs the tests must not change what they do.
for _name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
    os.environ.pop(_name, None)


class NetworkForbiddenError(AssertionError):
    """A test tried to reach something other than this machine."""


def _is_local(host: object) -> bool:
    """Whether a host is this machine; names other than localhost are not, so none is looked up."""
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _refuse_foreign(host: object) -> None:
    if not _is_local(host):
        raise NetworkForbiddenError(f"tests may reach loopback only, not {host!r}")


@pytest.fixture(scope="session", autouse=True)
def loopback_only() -> Iterator[None]:
    """Refuses connections, datagrams and name look-ups that leave this machine."""
    patch = pytest.MonkeyPatch()
    inet = (socket.AF_INET, socket.AF_INET6)

    def guard(name: str) -> None:
        original = getattr(socket.socket, name)

        def guarded(self: socket.socket, *args: Any) -> Any:
            if self.family in inet:
                _refuse_foreign(args[-1][0])
            return original(self, *args)

        patch.setattr(socket.socket, name, guarded)

    for name in ("connect", "connect_ex", "sendto"):
        guard(name)
    look_up = socket.getaddrinfo

    def local_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_foreign(host)
        return look_up(host, *args, **kwargs)

    patch.setattr(socket, "getaddrinfo", local_look_up)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree, for tests of the tree itself; they are skipped elsewhere."""
    root = Path(__file__).resolve().parent.parent
    if not (root / "setup.cfg").is_file():
        pytest.skip("needs the source tree")
    return root


@pytest.fixture(scope="session")
def local_model() -> Iterator[str]:
    """The base URL of a small language model on this machine; skipped where none is installed."""
    from pave_policy.testing.local_model import missing_parts, serve_model

    if missing := missing_parts():
        pytest.skip(missing)
    with serve_model() as url:
        yield url
