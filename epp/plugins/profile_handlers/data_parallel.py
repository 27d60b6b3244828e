"""One profile over data-parallel ranks that a sidecar stands in front of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from epp.framework.plugin import Parameters
from epp.plugins.profile_handlers.primary_port import LAST_PORT, PORT_FIELD, sent_to_primary_port
from epp.plugins.profile_handlers.single import SingleProfileHandler

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest
    from epp.framework.scheduling_results import ProfileResult, SchedulingResult


class DataParallelParameters(Parameters):
    """Where the sidecars are."""

    primary_port: int = Field(8000, ge=0, le=LAST_PORT, description=PORT_FIELD)


class DataParallelProfileHandler(SingleProfileHandler):
    """Runs the one profile, and sends the gateway to the first port of the picked rank's pod."""

    type = "data-parallel-profile-handler"
    ignores_parameters = False

    def __init__(self, parameters: DataParallelParameters) -> None:
        self._port = parameters.primary_port

    def process(
        self, request: InferenceRequest, results: Mapping[str, ProfileResult | None]
    ) -> SchedulingResult:
        """What the profile picked, at the primary port."""
        return sent_to_primary_port(request, super().process(request, results), self._port)
