"""Any of the candidates, the better ones more often."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING

from epp.framework.plugin import PluginContext
from epp.framework.scheduling import Picker
from epp.plugins.pickers.parameters import PickerParameters

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class WeightedRandomPicker(Picker):
    """Picks endpoints at random, in proportion to their totals.

    Endpoints without a positive total only fill up what the others leave; when there are no
    others, the pick is as random as that of `random-picker`.
    """

    type = "weighted-random-picker"

    def __init__(self, parameters: PickerParameters, context: PluginContext) -> None:
        self._limit = parameters.limit
        self._rng = context.rng

    def pick(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint], totals: Sequence[float]
    ) -> list[Endpoint]:
        """Different ones of `endpoints`, drawn one after another without being put back."""
        # The race of exponential clocks draws as the reference's U^(1/total) does (scheduling
        # §11), and does not lose small totals to underflow.
        arrival = self._rng.expovariate
        positive = [index for index, total in enumerate(totals) if total > 0]
        drawn = nsmallest(self._limit, positive, key=lambda index: arrival(totals[index]))
        room = self._limit - len(drawn)
        if room and len(positive) < len(endpoints):
            others = [index for index, total in enumerate(totals) if not total > 0]
            drawn += self._rng.sample(others, min(room, len(others)))
        return [endpoints[index] for index in drawn]
