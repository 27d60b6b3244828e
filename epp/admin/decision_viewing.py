"""From a decision as it is kept to the JSON that tells of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from epp.admin.candidate_viewing import MOST_ENDPOINTS, view_candidates
from epp.admin.decision_view import (
    DecisionPart,
    FilterPart,
    LeftOutPart,
    Outcome,
    PhasePart,
    ProfilePart,
    Rejected,
    ScorerPart,
    StepPart,
    Summary,
)
from epp.request_control.explanation import profile_reason, reason_of

if TYPE_CHECKING:
    from epp.admin.decision_view import CandidatePart
    from epp.framework.endpoint import Endpoint
    from epp.framework.scheduling_results import FilterResult, ProfileResult, ScorerResult
    from epp.framework.trail import Trail
    from epp.request_control.decision_log import Decision

NOTHING_LEFT = "the filters left no endpoint"


def summary_of(decision: Decision, now: float) -> Summary:
    """A decision in a line; `now` is the monotonic time."""
    refusal, started = decision.refusal, decision.started_at
    outcome: Outcome
    if refusal is not None:
        outcome, reason = "rejected", refusal.message
    elif decision.note or decision.result is None:
        outcome, reason = "fail-open", decision.note
    else:
        outcome, reason = "picked", reason_of(decision.result)
    return Summary(
        request_id=decision.request_id,
        path=decision.path,
        model=decision.model,
        target_model=decision.target_model,
        decided_at=_clock_time(decision.decided_at, now),
        seconds=None if started is None else _seconds(decision.decided_at - started),
        outcome=outcome,
        endpoints=_addresses(decision.endpoints),
        reason=reason,
    )


def view_decision(decision: Decision, now: float) -> DecisionPart:
    """All that is known of a decision."""
    summary = summary_of(decision, now)
    refusal, trail = decision.refusal, decision.trail
    pool = None if trail is None else trail.pool
    return DecisionPart(
        **{name: getattr(summary, name) for name in Summary.__struct_fields__},
        fairness_id=decision.fairness_id,
        priority=decision.priority,
        is_dry_run=decision.is_dry_run,
        rejection=None
        if refusal is None
        else Rejected(
            status=refusal.status,
            code=refusal.code,
            details=refusal.details,
            message=refusal.message,
        ),
        pool_size=None if pool is None else len(pool),
        left_out=[] if trail is None else list(_left_out(trail)),
        profiles=[] if trail is None else list(_profiles(decision, trail)),
        phases=list(_phases(decision)),
        steps=[
            StepPart(
                extension_point=step.name.extension_point,
                plugin=step.name.plugin,
                profile=step.name.profile,
                seconds=_seconds(step.seconds),
                failed=step.failed,
            )
            for step in (() if trail is None else trail.steps)
        ],
    )


def _left_out(trail: Trail) -> Iterable[LeftOutPart]:
    if trail.pool is None:
        return
    steps = [("subset", "", trail.pool, trail.located)]
    if trail.found is not None:
        steps.append(("ejection", "", trail.located, trail.found))
    steps += [("screener", each.name, each.before, each.after) for each in trail.screenings]
    if scheduled := _scheduled(trail):
        steps.append(("staleness", "", trail.screened, scheduled))
    for by, plugin, before, after in steps:
        if gone := _without(before, after):
            yield _part(by, gone, plugin)


def _scheduled(trail: Trail) -> Sequence[Endpoint]:
    """The endpoints that profiles were given; none: unknown."""
    if trail.result is not None:
        profile = trail.result.profiles[trail.result.primary]
    elif trail.unpicked:
        profile = trail.unpicked[0][1]
    else:
        return ()
    return profile.filters[0].before if profile.filters else profile.candidates


def _part(by: str, endpoints: Sequence[Endpoint], plugin: str) -> LeftOutPart:
    return LeftOutPart(
        by=by,
        plugin=plugin,
        count=len(endpoints),
        endpoints=_addresses(endpoints[:MOST_ENDPOINTS]),
    )


def _profiles(decision: Decision, trail: Trail) -> Iterable[ProfilePart]:
    result = trail.result
    if result is not None:
        roles = {name: role for role, name in result.roles.items()}
        for name in sorted(result.profiles, key=lambda name: name != result.primary):
            profile = result.profiles[name]
            endpoints = view_candidates(profile, decision)
            yield _profile(name, profile, name == result.primary, roles.get(name, ""), endpoints)
    for name, profile in trail.unpicked:
        yield _unpicked(name, profile)


def _profile(
    name: str,
    profile: ProfileResult,
    is_primary: bool,
    role: str,
    endpoints: list[CandidatePart],
) -> ProfilePart:
    left = len(profile.candidates)
    return ProfilePart(
        name=name,
        is_primary=is_primary,
        role=role,
        picked=_addresses(profile.endpoints),
        reason=profile_reason(profile),
        candidates=left,
        filters=[_filter(each) for each in profile.filters],
        scorers=[
            ScorerPart(plugin=each.name, weight=each.weight, is_kept=_is_kept(each, profile))
            for each in profile.scorers
        ],
        endpoints=endpoints,
        not_shown=left - len(endpoints),
    )


def _is_kept(scorer: ScorerResult, profile: ProfileResult) -> bool:
    # Neither has a time where a stranger's scheduler made them.
    return scorer.started_at is None and profile.started_at is not None


def _unpicked(name: str, profile: ProfileResult) -> ProfilePart:
    left = len(profile.candidates)
    return ProfilePart(
        name=name,
        is_primary=False,
        role="",
        picked=[],
        reason="it picked nothing" if left else NOTHING_LEFT,
        candidates=left,
        filters=[_filter(each) for each in profile.filters],
        scorers=[],
        endpoints=[],
        not_shown=left,
    )


def _filter(result: FilterResult) -> FilterPart:
    removed = _without(result.before, result.after)
    return FilterPart(
        plugin=result.name,
        before=len(result.before),
        after=len(result.after),
        removed=_addresses(removed[:MOST_ENDPOINTS]),
    )


def _phases(decision: Decision) -> Iterable[PhasePart]:
    started, scheduling = decision.started_at, decision.scheduling_at
    if started is None:
        return
    yield PhasePart(name="body", seconds=_seconds(started - decision.received_at))
    prepared = decision.decided_at if scheduling is None else scheduling
    yield PhasePart(name="preparation", seconds=_seconds(prepared - started))
    if scheduling is not None:
        yield PhasePart(name="scheduling", seconds=_seconds(decision.decided_at - scheduling))


def _without(before: Sequence[Endpoint], after: Sequence[Endpoint]) -> list[Endpoint]:
    kept = set(after)
    return [endpoint for endpoint in before if endpoint not in kept]


def _addresses(endpoints: Iterable[Endpoint]) -> list[str]:
    return [endpoint.address for endpoint in endpoints]


def _seconds(seconds: float) -> float:
    return round(seconds, 7)


def _clock_time(at: float, now: float) -> str:
    wall = datetime.fromtimestamp(time.time() - (now - at), UTC)
    return f"{wall.isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"
