"""One profile is all there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from epp.framework.scheduling import ProfileHandler, ProfileResult, SchedulingResult
from epp.plugins.profile_handlers.outcomes import outcome_of_one, require_one_profile

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest


class SingleProfileHandler(ProfileHandler):
    """Runs the one profile that is configured."""

    type = "single-profile-handler"
    ignores_parameters = True

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
        """What the profile picked."""
        return outcome_of_one(results)
