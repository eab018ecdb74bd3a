"""Ports for servers: nothing else on this machine takes one while its server starts again."""

import socket
from pathlib import Path

import pytest

from hourline_core.errors import SetupError
from hourline_core.runtime import ports
from hourline_core.runtime.ports import LOOPBACK, free_ports

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_ports_are_distinct_and_can_be_listened_on() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    for port in found:
        socket.create_server((LOOPBACK, port)).close()


@pytest.mark.skipif(not RANGE.exists(), reason="only Linux tells which ports it gives to outgoing connections")
def test_no_outgoing_connection_is_given_such_a_port() -> None:
    first, last = map(int, RANGE.read_text().split())
    assert not [port for port in free_ports(50) if first <= port <= last]


def test_ports_that_are_taken_are_left_out_and_too_few_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken, socket.create_server((LOOPBACK, 0)) as freed:
        first, second = (server.getsockname()[1] for server in (taken, freed))
        monkeypatch.setattr(
            ports, "_FOR_SERVERS", range(min(first, second), max(first, second) + 1, abs(first - second))
        )
        freed.close()
        assert free_ports(1) == [second]
        with pytest.raises(SetupError, match=r"only 1 of 2 ports from \d+ to \d+ are free; stop what uses them"):
            free_ports(2)
