"""The simplest pick: fewest requests in flight, then fewest recent picks, then at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint


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
