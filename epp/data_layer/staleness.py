"""When metrics can't be believed, and what an endpoint's state says meanwhile (decision 20)."""

from __future__ import annotations

from msgspec.structs import replace

from epp.framework.endpoint import NO_METRICS, EndpointState


def stale_after(interval: float, timeout: float) -> float:
    """Age from which data that come every `interval` seconds are not believed any more."""
    return max(4 * interval, 0.2) + timeout


def mark_stale(state: EndpointState) -> None:
    """Nothing is known of its load: it reads as neutral. Capacity and adapters stay."""
    state.is_stale = True
    state.metrics = replace(
        state.metrics, waiting_queue_size=0, running_requests_size=0, kv_cache_usage=0.0
    )


def mark_unscraped(state: EndpointState) -> None:
    """Nobody asks for its metrics any more."""
    state.is_stale = False
    state.metrics = NO_METRICS
