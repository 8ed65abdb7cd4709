"""Who listens on a port."""

import os
import socket

import pytest

from launch.nodes.ports import listener
from tests.standin.world import free_ports


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.2"), (socket.AF_INET6, "::1")])
def test_a_listener_on_any_address_is_found_with_its_process(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as server:
        try:
            server.bind((address, 0))
        except OSError:
            pytest.skip(f"{address} does not exist here")
        server.listen()
        found = listener(server.getsockname()[1])
    assert found is not None
    assert found.pid == os.getpid()
    assert found.command


def test_a_port_that_is_bound_but_not_listened_on_is_free() -> None:
    [port] = free_ports(1)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", port))
        assert listener(port) is None
