"""One profile over data-parallel ranks that a sidecar stands in front of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from epp.framework.plugin import Parameters
from epp.framework.scheduling import ProfileHandler, ProfileResult, SchedulingResult
from epp.plugins.profile_handlers.outcomes import only_result, require_one_profile
from epp.plugins.profile_handlers.primary_port import LAST_PORT, PORT_FIELD, sent_to_primary_port

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest


class DataParallelParameters(Parameters):
    """Where the sidecars are."""

    primary_port: int = Field(8000, ge=0, le=LAST_PORT, description=PORT_FIELD)


class DataParallelProfileHandler(ProfileHandler):
    """Runs the one profile, and sends the gateway to the first port of the picked rank's pod."""

    type = "data-parallel-profile-handler"

    def __init__(self, parameters: DataParallelParameters) -> None:
        self._port = parameters.primary_port

    def check(self, profiles: Sequence[str]) -> None:
        """There must be exactly one."""
        require_one_profile(self.name, profiles)

    def pick(
        self,
        request: InferenceRequest,
        profiles: Sequence[str],
        results: Mapping[str, ProfileResult | None],
    ) -> Sequence[str]:
        """The profile, once."""
        return () if results else profiles

    def process(
        self, request: InferenceRequest, results: Mapping[str, ProfileResult | None]
    ) -> SchedulingResult:
        """What the profile picked, at the primary port."""
        name, result = only_result(results)
        moved = sent_to_primary_port(request, result, self._port)
        return SchedulingResult(primary=name, profiles={name: moved})
