"""Text of IP addresses and of `ip:port`, one spelling each."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address

_HIGHEST_PORT = 65535
_LONGEST_NAME = 253
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_PORT = re.compile(
    rf"(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<name>{_LABEL}(?:\.{_LABEL})*\.?)):(?P<port>[0-9]{{1,5}})"
)


def canonical_ip(text: str) -> str | None:
    """The one spelling of an IP literal, without brackets; None for anything else.

    IPv4 inside IPv6 is that IPv4 address. An address with a zone means something on one host
    only, so it is none.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return None
        return str(address.ipv4_mapped or address)
    return str(address)


def routable_ip(text: str) -> str | None:
    """`canonical_ip`, unless nothing can listen there (unspecified, multicast)."""
    ip = canonical_ip(text)
    if ip is None:
        return None
    address = ip_address(ip)
    return None if address.is_unspecified or address.is_multicast else ip


def join_host_port(host: str, port: int | str) -> str:
    """`10.0.0.1:8000`, `[fd00::1]:8000`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_host_port(text: str) -> tuple[str, int] | None:
    """Whom to connect to, an IPv6 address without its brackets; None for anything else."""
    match = _HOST_PORT.fullmatch(text)
    if match is None or not 0 < int(match["port"]) <= _HIGHEST_PORT:
        return None
    host = match["name"] or match["ipv6"]
    is_valid = len(host) <= _LONGEST_NAME if match["name"] else _is_ipv6(host)
    return (host, int(match["port"])) if is_valid else None


def _is_ipv6(text: str) -> bool:
    return ":" in text and canonical_ip(text) is not None
