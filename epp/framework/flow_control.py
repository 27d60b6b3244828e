"""Contract of saturation detectors: how much room the pool has left."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.framework.plugin import Plugin

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint


class SaturationDetector(Plugin):
    """Tells how saturated endpoints are."""

    @abstractmethod
    def saturation(self, endpoints: Sequence[Endpoint]) -> float:
        """0: idle; 1 and more: saturated, requests of negative priority are shed."""
