"""What handlers make of profiles that ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epp.framework.errors import ConfigError, ErrorCode, Rejection
from epp.framework.scheduling import ProfileResult, SchedulingResult


def require_one_profile(handler: str, profiles: Sequence[str]) -> None:
    """Raise `ConfigError` unless there is exactly one profile."""
    if len(profiles) != 1:
        raise ConfigError(
            f"profile handler {handler!r}: schedulingProfiles must hold exactly one profile,"
            f" got {len(profiles)}: {', '.join(profiles) or 'none'}"
        )


def those_that_picked(results: Mapping[str, ProfileResult | None]) -> dict[str, ProfileResult]:
    """`results` without the profiles that failed."""
    return {name: result for name, result in results.items() if result is not None}


def only_result(results: Mapping[str, ProfileResult | None]) -> tuple[str, ProfileResult]:
    """Name and result of the one profile that ran; raises `Rejection` if it failed."""
    ((name, result),) = results.items()
    if result is None:
        raise Rejection(ErrorCode.RESOURCE_EXHAUSTED, f"failed to run scheduler profile '{name}'")
    return name, result


def outcome_of_one(results: Mapping[str, ProfileResult | None]) -> SchedulingResult:
    """What the one profile that ran picked; raises `Rejection` if it failed."""
    name, result = only_result(results)
    return SchedulingResult(primary=name, profiles={name: result})
