"""Contract of the scheduler: candidates in, endpoints out. Pure and synchronous."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingResult:
    """The endpoints of the primary profile, best first, and why the first one was taken."""

    endpoints: tuple[Endpoint, ...]
    reason: str


class Scheduler(Protocol):
    """Chooses among candidates."""

    def schedule(
        self, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> SchedulingResult:
        """Pick for `request` among `candidates` (never empty).

        Raises `Rejection` when every candidate was filtered out; anything else it raises is a
        fault, answered by the pool's failure mode.
        """
