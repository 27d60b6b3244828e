"""Any of the candidates, whatever their totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.framework.plugin import PluginContext
from epp.framework.scheduling import Picker
from epp.plugins.pickers.parameters import PickerParameters

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class RandomPicker(Picker):
    """Picks endpoints at random; scores count for nothing."""

    type = "random-picker"

    def __init__(self, parameters: PickerParameters, context: PluginContext) -> None:
        self._limit = parameters.limit
        self._rng = context.rng

    def pick(
        self, request: InferenceRequest, endpoints: Sequence[Endpoint], totals: Sequence[float]
    ) -> list[Endpoint]:
        """Different ones of `endpoints`, each order equally likely."""
        return self._rng.sample(endpoints, min(self._limit, len(endpoints)))
