"""The best first; who is equally good takes turns."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.framework.plugin import PluginContext
from epp.framework.scheduling import Picker
from epp.plugins.pickers.parameters import PickerParameters

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint, EndpointId
    from epp.framework.request import InferenceRequest

MOST_REMEMBERED = 8192
"""Endpoints whose last turn is known; of a larger pool the rest take turns at random."""


class MaxScorePicker(Picker):
    """Picks the endpoints with the highest totals; equals take turns.

    Of equals the one that was picked longest ago comes first (decision 33). A plain counter would
    not do: two profiles that share the picker, or two kinds of requests, could each see every
    second count.
    """

    type = "max-score-picker"

    def __init__(self, parameters: PickerParameters, context: PluginContext) -> None:
        self._limit = parameters.limit
        self._turns = _Turns(context.rng)

    def pick(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint], totals: Sequence[float]
    ) -> list[Endpoint]:
        """The best of `endpoints`, in falling order of their totals."""
        best = (
            self._best(endpoints, totals) if self._limit == 1 else self._ranked(endpoints, totals)
        )
        if not request.is_dry_run:
            self._turns.took(best[0])
        return best

    def _best(self, endpoints: Sequence[Endpoint], totals: Sequence[float]) -> list[Endpoint]:
        highest = max(totals)
        if totals.count(highest) == 1:
            return [endpoints[totals.index(highest)]]
        return [
            self._turns.next_of(
                [
                    endpoint
                    for endpoint, total in zip(endpoints, totals, strict=True)
                    if total == highest
                ]
            )
        ]

    def _ranked(self, endpoints: Sequence[Endpoint], totals: Sequence[float]) -> list[Endpoint]:
        keys = [
            (-total, *self._turns.place_of(endpoint))
            for endpoint, total in zip(endpoints, totals, strict=True)
        ]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return [endpoints[index] for index in order[: self._limit]]


class _Turns:
    """When each endpoint was picked last; who never was comes first, at random."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._count = 0
        self._last: OrderedDict[EndpointId, int] = OrderedDict()

    def took(self, endpoint: Endpoint) -> None:
        """`endpoint` had its turn."""
        self._count += 1
        self._last[endpoint.id] = self._count
        self._last.move_to_end(endpoint.id)
        if len(self._last) > MOST_REMEMBERED:
            self._last.popitem(last=False)

    def next_of(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        """The one of `endpoints` whose turn it is."""
        last = self._last.get
        turns = [last(endpoint.id, 0) for endpoint in endpoints]
        earliest = min(turns)
        if earliest:
            return endpoints[turns.index(earliest)]
        return self._rng.choice(
            [endpoint for endpoint, turn in zip(endpoints, turns, strict=True) if not turn]
        )

    def place_of(self, endpoint: Endpoint) -> tuple[int, float]:
        """What sorts `endpoint` among its equals."""
        return self._last.get(endpoint.id, 0), self._rng.random()
