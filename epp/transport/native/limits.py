"""What one peer may do. Of all peers together `budgets.py` counts what they hold, `acceptor.py` the
connections, and `keepalive.py` says how long anything may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Of one connection."""

    receive_window: int = 16 * 1024 * 1024
    """Bytes of DATA on their way, per stream and on the whole connection."""
    max_streams: int = 100_000
    """At once. High, as gateways open more than is announced before they have read it."""
    burst_of_noise: int = 20_000
    """Frames that bring nothing: pings, empty DATA, settings (RFC 9113 §10.5)."""
    noise_per_second: float = 2_000
    burst_of_resets: int = 20_000
    """Streams opened and reset: a gateway that loses its clients resets all of theirs."""
    resets_per_second: float = 200
