"""What clients are answered: by model servers, and by the process itself."""

from __future__ import annotations

from epp.observability import metric_catalogue as catalogue
from epp.observability.instruments import FamilySet
from epp.observability.label_caps import OTHER, LabelCap

MAX_REJECTION_REASONS = 100
"""Plugins may reject for reasons of their own, which they may make up as they go."""


class AnswerMetrics:
    """Counts answers by their status, and rejections by their reason, too."""

    def __init__(self, build: FamilySet) -> None:
        self._rejected = build.counter(catalogue.REJECTED)
        self._reasons = LabelCap(MAX_REJECTION_REASONS)
        responses = build.counter(catalogue.RESPONSES)
        self._responses = {digit: responses.labels((f"{digit}xx",)) for digit in range(1, 6)}
        self._odd_responses = responses.labels((OTHER,))

    def rejected(self, status: int, reason: str) -> None:
        """A request was answered with an error; `reason` is its drop reason, else its details."""
        self._rejected.labels((str(status), self._reasons.admit(reason))).inc()

    def responded(self, status: int) -> None:
        """A response with this HTTP status was seen."""
        self._responses.get(status // 100, self._odd_responses).inc()
