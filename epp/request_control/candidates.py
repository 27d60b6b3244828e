"""Which endpoints a request may go to: all of the pool's, or the subset its gateway names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.datastore.endpoint_index import pool_order
from epp.framework.errors import DropReason, ErrorCode, PlainRejection
from epp.support.addresses import canonical_ip, join_host_port

if TYPE_CHECKING:
    from epp.datastore.snapshot import Snapshot
    from epp.framework.endpoint import Endpoint
    from epp.framework.trail import Trail
    from epp.request_control.incoming import IncomingRequest
    from epp.request_control.outliers import OutlierMemory


class Candidates:
    """Finds them in a pool, without those that answer with errors."""

    def __init__(self, outliers: OutlierMemory, *, use_subset: bool) -> None:
        self._outliers = outliers
        self._use_subset = use_subset

    def of(
        self, incoming: IncomingRequest, snapshot: Snapshot, trail: Trail | None = None
    ) -> Sequence[Endpoint]:
        """The endpoints of `snapshot` that `incoming` may go to; `trail` gets whom that leaves out.

        Without any it is a `Rejection` with 503, in both failure modes (decision 1).
        """
        hint = incoming.subset if self._use_subset else None
        found = locate_candidates(snapshot, hint)
        if trail is not None:
            trail.pool, trail.located = snapshot.endpoints, found
        if not found:
            raise PlainRejection(
                ErrorCode.SERVICE_UNAVAILABLE,
                "failed to find endpoint candidates for serving the request",
                drop_reason=DropReason.NO_ENDPOINTS,
                retry_after=1,
            )
        found = self._outliers.among(found)
        if trail is not None:
            trail.found = found
        return found


def locate_candidates(snapshot: Snapshot, hint: object) -> Sequence[Endpoint]:
    """The endpoints of `snapshot` that `hint` allows, in pool order and each once.

    `hint` is the value of the subset metadata as Python data; None says there is none. The
    work depends on the length of the hint, not on the size of the pool.
    """
    subset = subset_of(hint)
    if subset is None:
        return snapshot.endpoints
    found = {endpoint for entry in subset for endpoint in _matches(snapshot, entry)}
    return sorted(found, key=pool_order)


def subset_of(hint: object) -> tuple[str, ...] | None:
    """The entries of a hint, at most `ip:port` or `ip` each; None: no restriction.

    A hint that can't be understood names no endpoint, rather than all of them (protocol §4).
    """
    if hint is None:
        return None
    if isinstance(hint, str):
        texts: Sequence[object] = (hint,)
    else:
        texts = hint if isinstance(hint, (list, tuple)) else ()
    return tuple(
        part.strip()
        for text in texts
        if isinstance(text, str)
        for part in text.split(",")
        if part.strip()
    )


def _matches(snapshot: Snapshot, entry: str) -> Sequence[Endpoint]:
    endpoint = snapshot.by_address.get(entry)
    if endpoint is not None:
        return (endpoint,)
    if entry.count(":") < 2:  # IPv4 has one spelling only
        return snapshot.by_ip.get(entry, ())
    ip, port = _split_ipv6(entry)
    if ip is None:
        return ()
    if not port:
        return snapshot.by_ip.get(ip, ())
    endpoint = snapshot.by_address.get(join_host_port(ip, port))
    return (endpoint,) if endpoint is not None else ()


def _split_ipv6(entry: str) -> tuple[str | None, str]:
    """Canonical IP and port of `[ip]:port`, `[ip]` or `ip`; no IP for anything else."""
    if not entry.startswith("["):
        return canonical_ip(entry), ""
    host, bracket, rest = entry[1:].partition("]")
    if not bracket or (rest and not rest.startswith(":")) or rest == ":":
        return None, ""
    return canonical_ip(host), rest[1:]
