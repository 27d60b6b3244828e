"""How close one endpoint is to its limits of queue and KV cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.framework.endpoint import EndpointMetrics


def pressure_against(
    queue_depth_threshold: float, kv_cache_threshold: float
) -> Callable[[EndpointMetrics], float]:
    """The worse of the two ratios of load to threshold; 1 and more: at the limit."""

    def pressure(metrics: EndpointMetrics) -> float:
        return max(
            metrics.waiting_queue_size / queue_depth_threshold,
            metrics.kv_cache_usage / kv_cache_threshold,
        )

    return pressure
