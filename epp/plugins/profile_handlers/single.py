"""One profile is all there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from epp.framework.errors import ConfigError, ErrorCode, PlainRejection
from epp.framework.scheduling import ProfileHandler
from epp.framework.scheduling_results import ProfileResult, SchedulingResult

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest


class SingleProfileHandler(ProfileHandler):
    """Runs the one profile that is configured."""

    type = "single-profile-handler"
    ignores_parameters = True

    def check(self, profiles: Sequence[str]) -> None:
        """There must be exactly one."""
        if len(profiles) != 1:
            raise ConfigError(
                f"profile handler {self.name!r}: schedulingProfiles must hold exactly one profile,"
                f" got {len(profiles)}: {', '.join(profiles) or 'none'}"
            )

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


def outcome_of_one(results: Mapping[str, ProfileResult | None]) -> SchedulingResult:
    """What the one profile that ran picked; raises `Rejection` if it failed."""
    ((name, result),) = results.items()
    if result is None:
        raise PlainRejection(
            ErrorCode.RESOURCE_EXHAUSTED, f"failed to run scheduler profile '{name}'"
        )
    return SchedulingResult(primary=name, profiles={name: result})
