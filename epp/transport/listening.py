"""Sockets that listen, on IPv4 and IPv6 at once where every interface is meant."""

from __future__ import annotations

import socket

_BACKLOG = 1024
_TLS_BACKLOG = 256
"""About as many as are taken in a second at most: who comes behind a flood had better try again."""


def listening_socket(address: str, port: int, *, is_tls: bool = False) -> socket.socket:
    """Listen without blocking; an empty address is every interface. Raises `OSError`."""
    listening = _bind(address or "::", port, _TLS_BACKLOG if is_tls else _BACKLOG)
    listening.setblocking(False)
    return listening


def _bind(address: str, port: int, backlog: int) -> socket.socket:
    if ":" not in address:
        return socket.create_server((address, port), backlog=backlog)
    dual = address == "::" and socket.has_dualstack_ipv6()
    if address == "::" and not dual:
        return socket.create_server(("0.0.0.0", port), backlog=backlog)
    return socket.create_server(
        (address, port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=dual
    )
