"""Gauges of what is in flight by endpoint, fairness id and priority, gone where it is nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from epp.framework.metric_specs import GaugeSpec

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest

Labels: TypeAlias = tuple[str, ...]

_LABELS = ("endpoint_name", "namespace", "producer_name", "fairness_id", "priority")
INFLIGHT_REQUESTS = GaugeSpec(
    name="llm_d_epp_inflight_requests",
    help="[ALPHA] Requests sent to an endpoint that are not done there.",
    labels=_LABELS,
)
INFLIGHT_TOKENS = GaugeSpec(
    name="llm_d_epp_inflight_tokens",
    help="[ALPHA] Estimated tokens sent to an endpoint that it has yet to compute.",
    labels=_LABELS,
)
MAX_SERIES = 10_000
MAX_FAIRNESS_ID_LENGTH = 256
OTHER = "other"


class InflightSeries:
    """Sums by label values. At most so many: clients name the fairness ids."""

    def __init__(self, producer: str, max_series: int = MAX_SERIES) -> None:
        self._producer = producer
        self._max_series = max_series
        self._sums: dict[Labels, tuple[int, int]] = {}

    def labels(self, request: InferenceRequest, endpoint: Endpoint) -> Labels:
        """Where a request at an endpoint is counted; to be asked once and kept."""
        fairness_id, priority = request.fairness_id, str(request.priority)
        if len(fairness_id) > MAX_FAIRNESS_ID_LENGTH:
            fairness_id = OTHER
        labels = (endpoint.name, endpoint.namespace, self._producer, fairness_id, priority)
        if labels not in self._sums and len(self._sums) >= self._max_series:
            return OTHER, OTHER, self._producer, OTHER, OTHER
        return labels

    def add(self, labels: Labels, requests: int, tokens: int) -> None:
        """Count them; negative numbers take back what was counted."""
        had_requests, had_tokens = self._sums.get(labels, (0, 0))
        sums = had_requests + requests, had_tokens + tokens
        if any(sums):
            self._sums[labels] = sums
        else:
            self._sums.pop(labels, None)

    def requests(self) -> Mapping[Labels, float]:
        """Requests in flight."""
        return {labels: requests for labels, (requests, _) in self._sums.items()}

    def tokens(self) -> Mapping[Labels, float]:
        """Tokens in flight."""
        return {labels: tokens for labels, (_, tokens) in self._sums.items()}

    def by_endpoint(self) -> dict[str, tuple[int, int]]:
        """Requests and tokens in flight at each endpoint."""
        sums: dict[str, tuple[int, int]] = {}
        for (name, namespace, *_), (requests, tokens) in self._sums.items():
            had_requests, had_tokens = sums.get(f"{namespace}/{name}", (0, 0))
            sums[f"{namespace}/{name}"] = had_requests + requests, had_tokens + tokens
        return sums
