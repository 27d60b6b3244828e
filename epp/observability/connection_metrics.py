"""What limits on connections did, by port."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from epp.observability import metric_catalogue as catalogue
from epp.observability.instruments import FamilySet

_PORTS = ("ext-proc", "health", "metrics", "admin")
_LIMITS = ("connections", "resources", "handshakes", "handshake-rate", "handshake")


class ConnectionMetrics:
    """Counts how often a limit held."""

    def __init__(self, build: FamilySet) -> None:
        self._limits = build.counter(catalogue.CONNECTION_LIMITS)
        for port in _PORTS:  # a rate over a counter needs its zero
            for limit in _LIMITS:
                self._limits.labels((port, limit))

    def observer(self, port: str) -> Callable[[str], None]:
        """Counts for one port."""
        return partial(self._limit_held, port)

    def _limit_held(self, port: str, limit: str) -> None:
        self._limits.labels((port, limit)).inc()
