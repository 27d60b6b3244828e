"""The built-in pick: fewest requests in flight, then fewest recent picks, then at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.framework.scheduling import ProfileResult, SchedulingResult

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


def least_in_flight(candidates: Sequence[Endpoint], rng: random.Random) -> Endpoint:
    """The least loaded of `candidates` (never empty), by this process's own counts."""
    if len(candidates) == 1:
        return candidates[0]
    fewest = min(endpoint.load.in_flight for endpoint in candidates)
    idlest = [endpoint for endpoint in candidates if endpoint.load.in_flight == fewest]
    if len(idlest) == 1:
        return idlest[0]
    picks = [endpoint.load.recent_picks for endpoint in idlest]
    rarest = min(picks)
    return rng.choice(
        [endpoint for endpoint, count in zip(idlest, picks, strict=True) if count == rarest]
    )


class LeastInFlightScheduler:
    """Spreads requests evenly without knowing anything of the model servers."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def schedule(
        self, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> SchedulingResult:
        """Pick one endpoint; the reason tells how many candidates it was compared with."""
        endpoint = least_in_flight(candidates, self._rng)
        count = len(candidates)
        reason = (
            "only candidate"
            if count == 1
            else f"fewest in flight, {endpoint.load.in_flight}, of {count} endpoints"
        )
        return SchedulingResult(
            primary="default",
            profiles={"default": ProfileResult(endpoints=(endpoint,), candidates=candidates)},
            note=reason,
        )
