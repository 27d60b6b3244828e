"""What an endpoint's state says while its metrics can't be believed (decision 20)."""

from __future__ import annotations

from dataclasses import replace

from epp.framework.endpoint import NO_METRICS, EndpointState


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
