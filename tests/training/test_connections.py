"""A name that nobody knows is refused, and connections over which nothing comes end."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from crawl.training import connections
from crawl.training.connections import check_address, choose_interface, give_up_silent, open_connections

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")


def test_refuses_a_name_without_an_address(monkeypatch):
    def unknown(host, port):
        raise socket.gaierror(-2, "Name or service not known")

    check_address("127.0.0.1", 0)
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ValueError, match=r"MASTER_ADDR=node7 has no address on .*Name or service.*as numbers"):
        check_address("node7", 0)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"MASTER_ADDR=\.\.\. has no address"):
        check_address("...", 0)


def test_waits_for_a_name_that_becomes_known(monkeypatch):
    asked = []

    def known_later(host, port):
        asked.append(host)
        if len(asked) == 1:
            raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", known_later)
    check_address("node7", 10)
    assert asked == ["node7", "node7"]


class TestInterface:
    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch):
        """A machine whose own name has a loopback address, as on Debian, and whose network is `eth7`."""
        monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
        monkeypatch.setattr(connections, "_address", lambda host: "127.0.1.1")
        monkeypatch.setattr(connections, "_address_towards", lambda host: "10.1.2.3")
        monkeypatch.setattr(connections, "_address_of", {"lo": "127.0.0.1", "eth7": "10.1.2.3"}.get)
        monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "other"), (3, "eth7")])
        yield
        os.environ.pop("GLOO_SOCKET_IFNAME", None)

    def test_gloo_does_not_use_the_loopback_between_machines(self):
        choose_interface("first")
        assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"

    def test_what_is_set_or_works_stays(self, monkeypatch):
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
        choose_interface("first")
        assert os.environ["GLOO_SOCKET_IFNAME"] == "ib0"
        monkeypatch.delenv("GLOO_SOCKET_IFNAME")
        monkeypatch.setattr(connections, "_address_towards", lambda host: "127.0.0.1")  # one machine
        choose_interface("localhost")
        monkeypatch.setattr(connections, "_address_towards", lambda host: "10.1.2.3")
        monkeypatch.setattr(connections, "_address", lambda host: "10.9.9.9")
        choose_interface("first")
        assert "GLOO_SOCKET_IFNAME" not in os.environ


@needs_proc
def test_this_machine_has_a_loopback():
    assert connections._address_towards("127.0.0.1") == "127.0.0.1"
    assert connections._address_of("lo") == "127.0.0.1"
    assert connections._address_of("nothing0") is None


@needs_proc
def test_new_connections_are_given_up_after_a_minute_of_silence():
    def signs(connection):
        names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        values = [connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
        return [connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), *values]

    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as old:
        usual, before = signs(old), open_connections()
        local, other = socket.socketpair()  # within the machine, not TCP
        with socket.create_connection(server.getsockname()) as new, local, other:
            give_up_silent(since=before)
            assert signs(new) == [1, 10, 10, 6, 60_000]
            assert signs(old) == usual
            new.sendall(b"it is still open")
