"""When connections come in crowds: how many may be there, how fast TLS handshakes may come, and who
is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import structlog

from epp.support.line_pace import LinePace
from epp.support.open_files import open_files_limit

log = structlog.get_logger(__name__)

MAX_CONNECTIONS = 2048
"""Of a port that takes streams, as gateways open one per worker thread. One may cost 0.1 MB beyond
what is counted in held bytes and streams, and 0.8 MB more in a socket's buffer while the peer does
not read."""

STREAMS_PART, OTHERS_PART = 2, 8
"""Of the files that may be open: half is for the streams of gateways, an eighth for each other
port."""

ConnectionLimit = Literal["connections", "resources", "handshakes", "handshake-rate", "handshake"]
"""Too many connections: one was closed. No more files may be open: all wait. Too many TLS
handshakes under way: the oldest was closed. They come too fast: one had to wait. One failed, or
took too long."""
LimitObserver: TypeAlias = Callable[[ConnectionLimit], None]

_WARNINGS: dict[ConnectionLimit, str] = {
    "connections": "too many connections, for each that comes one is closed",
    "resources": "connections can't be accepted for now: too many open files, or no memory",
    "handshakes": "too many TLS handshakes under way, for each that comes the oldest is closed",
    "handshake-rate": "TLS handshakes come faster than they are taken, some wait",
}


def connections_within(most: int, part: int) -> int:
    """No more than `most`, nor than a `part`th of the files that may be open. What all ports take
    leaves an eighth or more to scrapes and the API server."""
    return min(most, open_files_limit() // part)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeLimits:
    """Of one listener. One costs half a millisecond or more, before its peer has shown anything."""

    under_way: int = 128
    """At a time: all of them may have their costly step in the same turn of the loop."""
    burst: int = 256
    """Of a gateway that starts, and opens one for each of its threads."""
    per_second: float = 250.0


class HandshakePace:
    """Lets a burst through, then spreads what comes."""

    def __init__(self, limits: HandshakeLimits) -> None:
        self._apart = 1.0 / limits.per_second
        self._burst = limits.burst * self._apart
        self._paid_until = float("-inf")

    def pause(self, now: float) -> float:
        """How long to wait after one that begins now, before the next."""
        self._paid_until = max(self._paid_until, now - self._burst) + self._apart
        return max(self._paid_until - now, 0.0)


class CrowdReport:
    """Counts what limits do, and tells of it in the log, but not of each."""

    def __init__(self, port: int, observe: LimitObserver) -> None:
        self._port = port
        self._observe = observe
        self._paces: defaultdict[ConnectionLimit, LinePace] = defaultdict(LinePace)

    def count(self, limit: ConnectionLimit, most: float, now: float) -> None:
        """One more, of a limit that is `most`."""
        self.count_silently(limit)
        untold = self._paces[limit].count(now)
        if untold:
            log.warning(_WARNINGS[limit], port=self._port, limit=most, count=untold)

    def count_silently(self, limit: ConnectionLimit) -> None:
        """One more that the log need not tell."""
        self._observe(limit)


def unobserved(_: ConnectionLimit) -> None:
    """For listeners nobody watches."""
