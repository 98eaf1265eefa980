"""The tests' own guard: nothing leaves this machine, loopback works."""

from __future__ import annotations

import asyncio
import socket

import pytest


@pytest.mark.parametrize("address", ["192.0.2.1", "example.org"])
def test_connections_beyond_loopback_are_refused(address: str) -> None:
    with socket.socket() as client, pytest.raises(AssertionError, match="loopback only"):
        client.connect((address, 80))


def test_datagrams_and_look_ups_beyond_loopback_are_refused() -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as sender,
        pytest.raises(AssertionError, match="loopback only"),
    ):
        sender.sendto(b"x", ("192.0.2.1", 9))
    with pytest.raises(AssertionError, match="loopback only"):
        socket.getaddrinfo("example.org", 80)


def test_asynchronous_connections_are_guarded_too() -> None:
    with pytest.raises(AssertionError, match="loopback only"):
        asyncio.run(asyncio.wait_for(asyncio.open_connection("192.0.2.1", 80), timeout=5))


def test_loopback_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname(), timeout=5):
            pass
