"""Connections between processes: where they begin, and how the system notices that a machine is out of reach.

A process that dies closes its connections, which the others see at once. A machine that loses its power or its
network says nothing: without what is here, the others would wait until torch loses patience, half an hour later.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None  # type: ignore[assignment]

_SECONDS_OF_SILENCE = 60  # then a connection is given up
_SECONDS_BETWEEN_SIGNS = 10  # of life, where nothing else is sent
_SIOCGIFADDR = 0x8915  # asks Linux for the address of an interface
_SECONDS_TO_RESOLVE = 30.0  # a name may become known only when its machine has started


def check_address(host: str, seconds: float | None = None) -> None:
    """Refuse a name of a machine that nobody knows, after some seconds.

    Raises:
        ValueError: With the remedy, if it has no address.
    """
    end = time.monotonic() + (_SECONDS_TO_RESOLVE if seconds is None else seconds)
    while True:
        try:
            socket.getaddrinfo(host, None)
            return
        except (OSError, UnicodeError) as error:
            if time.monotonic() >= end:
                why = getattr(error, "strerror", None) or "not a name"
                raise ValueError(
                    f"MASTER_ADDR={host} has no address on {socket.gethostname()} ({why}): give the address of the "
                    "first machine, as numbers if it has no name that all machines know."
                ) from None
        time.sleep(0.5)


def choose_interface(host: str) -> None:
    """Let gloo use the network by which this machine reaches the first one, if it would use the loopback.

    It takes the address of this machine's own name, which on Debian and Ubuntu is a loopback address: other machines
    would look for this process on themselves. `GLOO_SOCKET_IFNAME` is left as it is.
    """
    if "GLOO_SOCKET_IFNAME" not in os.environ and _is_loopback(_address(socket.gethostname())):
        own = _address_towards(host)
        names = [name for _, name in socket.if_nameindex() if _address_of(name) == own] if own else []
        if names and not _is_loopback(own):
            os.environ["GLOO_SOCKET_IFNAME"] = names[0]


def _is_loopback(address: str | None) -> bool:
    return address is None or address.startswith("127.")


def _address(host: str) -> str | None:
    """The address of a name, IPv4; None if it has none."""
    try:
        return socket.gethostbyname(host)
    except (OSError, UnicodeError):
        return None


def _address_towards(host: str) -> str | None:
    """The address that another machine would see this one have, IPv4. Nothing is sent to find it."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return str(probe.getsockname()[0])
    return None


def _address_of(interface: str) -> str | None:
    """The address of a network interface, IPv4; None if it has none, or the system cannot be asked."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        if fcntl is not None:
            found = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
            return socket.inet_ntoa(found[20:24])
    return None


def open_connections() -> dict[int, int]:
    """The TCP sockets of this process: their numbers in the system, and their descriptors. Empty where there is no
    `/proc`."""
    found = {}
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # the one by which the folder was read is closed again
                status = os.fstat(int(name))
                if stat.S_ISSOCK(status.st_mode):
                    found[status.st_ino] = int(name)
    return found


def give_up_silent(since: dict[int, int]) -> None:
    """Let the system end connections made since then, once nothing has come over them for a minute.

    What waits for them then fails. Live processes that compute for hours are not silent: their systems answer.
    """
    for number, descriptor in open_connections().items():
        if number not in since:
            for connection in _tcp(descriptor):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for name, value in _SIGNS.items():
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


_SIGNS = {
    "TCP_KEEPIDLE": _SECONDS_BETWEEN_SIGNS,
    "TCP_KEEPINTVL": _SECONDS_BETWEEN_SIGNS,
    "TCP_KEEPCNT": _SECONDS_OF_SILENCE // _SECONDS_BETWEEN_SIGNS,
    "TCP_USER_TIMEOUT": _SECONDS_OF_SILENCE * 1000,  # in milliseconds; of what was sent and is not confirmed
}


def _tcp(descriptor: int) -> Iterator[socket.socket]:
    """The socket with this descriptor, if TCP is what it speaks."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
            yield connection
