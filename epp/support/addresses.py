"""Text of IP addresses and of `ip:port`, one spelling each."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


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
