"""Sockets that listen: on every address of a host, and only where nobody else does."""

import socket

import pytest

from memoryhub.runtime.processes import listen
from tests.ports import free_port


def addresses(host: str, port: int) -> set[tuple[socket.AddressFamily, str]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return {(family, str(address[0])) for family, _, _, _, address in found}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_every_address_of_a_host_is_listened_on(host: str) -> None:
    port = free_port()
    sockets = listen(host, port)
    try:
        assert {(each.family, each.getsockname()[0]) for each in sockets} == addresses(host, port)
        assert {each.proto for each in sockets} == {socket.IPPROTO_TCP}
        for _, address in addresses(host, port):
            socket.create_connection((address, port), timeout=10).close()
        with pytest.raises(OSError, match="in use"):
            listen(host, port)
    finally:
        for each in sockets:
            each.close()
