"""Admission by chance, the less likely the busier the pool is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request_control import Admitter
from epp.plugins.admitters.denials import no_room
from epp.plugins.saturation.pressure import pressure_against

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class ProbabilisticAdmitterParameters(Parameters):
    """How fast the probability of a denial rises with saturation."""

    queue_depth_threshold: int = Field(
        5, gt=0, description="Waiting requests at which an endpoint is saturated."
    )
    kv_cache_util_threshold: float = Field(
        0.8, gt=0, description="KV-cache usage at which an endpoint is saturated."
    )
    power: float = Field(5.0, gt=0, description="Exponent of the saturation.")
    k: float = Field(300.0, gt=0, description="Factor before the power of the saturation.")


class ProbabilisticAdmitter(Admitter):
    """Sheds requests of negative priority with a probability that rises with saturation."""

    type = "probabilistic-admitter"
    stability = Stability.BETA

    def __init__(self, parameters: ProbabilisticAdmitterParameters, context: PluginContext) -> None:
        self._pressure = pressure_against(
            parameters.queue_depth_threshold, parameters.kv_cache_util_threshold
        )
        self._power = parameters.power
        self._log_k = math.log(parameters.k)
        self._rng: random.Random = context.rng

    def admit(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Draw, for a request of negative priority."""
        if request.priority >= 0 or not endpoints:
            return
        saturation = self.saturation(endpoints)
        probability = self.denial_probability(saturation)
        if self._rng.random() < probability:
            raise no_room(
                "probabilistic-admitter: rejected,"
                f" saturation={saturation:.3f} prob={probability:.2f}"
            )

    def saturation(self, endpoints: Sequence[Endpoint]) -> float:
        """Mean pressure on the endpoints."""
        return sum(self._pressure(endpoint.metrics) for endpoint in endpoints) / len(endpoints)

    def denial_probability(self, saturation: float) -> float:
        """`min(1, k * saturation ** power)`, by logarithms so that no power can overflow."""
        if saturation <= 0:
            return 0.0
        return math.exp(min(0.0, self._log_k + self._power * math.log(saturation)))
