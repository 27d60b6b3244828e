from collections.abc import Sequence

from pydantic import Field

from epp.framework import Endpoint, InferenceRequest, Parameters, Scorer


class LeastWaitingParameters(Parameters):
    max_waiting: int = Field(128, ge=1, description="Waiting requests at which the score is 0.")


class LeastWaitingScorer(Scorer):
    """Prefers endpoints with few waiting requests."""

    def __init__(self, parameters: LeastWaitingParameters) -> None:
        self._limit = parameters.max_waiting

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        return [1 - min(e.metrics.waiting_queue_size, self._limit) / self._limit for e in endpoints]
