"""Sockets that listen, on IPv4 and IPv6 at once where every interface is meant."""

from __future__ import annotations

import socket

_BACKLOG = 1024


def listening_socket(address: str, port: int) -> socket.socket:
    """Listen without blocking; an empty address is every interface. Raises `OSError`."""
    listening = _bind(address or "::", port)
    listening.setblocking(False)
    return listening


def _bind(address: str, port: int) -> socket.socket:
    if ":" not in address:
        return socket.create_server((address, port), backlog=_BACKLOG)
    dual = address == "::" and socket.has_dualstack_ipv6()
    if address == "::" and not dual:
        return socket.create_server(("0.0.0.0", port), backlog=_BACKLOG)
    return socket.create_server(
        (address, port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=dual
    )
