"""From a decision as it is kept to the JSON that tells of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from epp.admin.decision_view import (
    CandidatePart,
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
    from epp.framework.endpoint import Endpoint
    from epp.framework.scheduling import FilterResult, ProfileResult, ScorerResult
    from epp.request_control.decision_log import Decision

MOST_ENDPOINTS = 64
"""Endpoints that are told one by one, in each list."""
NOTHING_LEFT = "the filters left no endpoint"


def summary_of(decision: Decision, now: float) -> Summary:
    """A decision in a line; `now` is the monotonic time."""
    refusal, started = decision.refusal, decision.started_at
    outcome: Outcome = "picked"
    if decision.result is not None:
        reason = reason_of(decision.result)
    elif refusal is not None:
        outcome, reason = "rejected", refusal.message
    else:
        outcome, reason = "fail-open", decision.note
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
    refusal, recording = decision.refusal, decision.recording
    return DecisionPart(
        **{name: getattr(summary, name) for name in Summary.__struct_fields__},
        fairness_id=decision.fairness_id,
        priority=decision.priority,
        is_dry_run=recording is not None,
        rejection=None
        if refusal is None
        else Rejected(
            status=refusal.status,
            code=refusal.code,
            details=refusal.details,
            message=refusal.message,
        ),
        pool_size=decision.pool_size,
        left_out=list(_left_out(decision)),
        profiles=list(_profiles(decision)),
        phases=list(_phases(decision)),
        steps=[
            StepPart(
                extension_point=step.extension_point,
                plugin=step.plugin,
                profile=step.profile,
                seconds=_seconds(step.seconds),
                failed=step.failed,
            )
            for step in (recording.steps if recording is not None else ())
        ],
    )


def _left_out(decision: Decision) -> Iterable[LeftOutPart]:
    if decision.recording is not None:
        for each in decision.recording.left_out:
            yield _part(each.by, each.endpoints, each.plugin)
        return
    result = decision.result
    if result is None or decision.pool_size is None:
        return
    count = decision.pool_size - len(decision.found)
    if count > 0:
        yield LeftOutPart(by="subset or ejection", count=count, endpoints=[])
    primary = result.profiles[result.primary]
    scheduled = primary.filters[0].before if primary.filters else primary.candidates
    steps = (
        ("screener", decision.found, decision.screened),
        ("staleness", decision.screened, scheduled),
    )
    for by, before, after in steps:
        gone = _without(before, after)
        if gone:
            yield _part(by, gone)


def _part(by: str, endpoints: Sequence[Endpoint], plugin: str = "") -> LeftOutPart:
    return LeftOutPart(
        by=by,
        plugin=plugin,
        count=len(endpoints),
        endpoints=_addresses(endpoints[:MOST_ENDPOINTS]),
    )


def _profiles(decision: Decision) -> Iterable[ProfilePart]:
    result = decision.result
    picked = {} if result is None else result.profiles
    if result is not None:
        roles = {name: role for role, name in result.roles.items()}
        for name in sorted(picked, key=lambda name: name != result.primary):
            yield _profile(name, picked[name], name == result.primary, roles.get(name, ""))
    recorded = decision.recording.filters if decision.recording is not None else {}
    for name, filters in recorded.items():
        if name not in picked and filters:
            yield _failed_profile(name, filters)


def _profile(name: str, profile: ProfileResult, is_primary: bool, role: str) -> ProfilePart:
    place_of = {endpoint.id: place for place, endpoint in enumerate(profile.endpoints, 1)}
    totals, candidates = profile.totals, profile.candidates
    scored = range(min(len(totals), len(candidates)))
    order = sorted(scored, key=lambda index: (-totals[index], candidates[index].id not in place_of))
    shown = order[:MOST_ENDPOINTS]
    shown += [index for index in order[MOST_ENDPOINTS:] if candidates[index].id in place_of]
    return ProfilePart(
        name=name,
        is_primary=is_primary,
        role=role,
        picked=_addresses(profile.endpoints),
        reason=profile_reason(profile),
        candidates=len(candidates),
        filters=[_filter(each) for each in profile.filters],
        scorers=[ScorerPart(plugin=each.name, weight=each.weight) for each in profile.scorers],
        endpoints=[
            _candidate(
                candidates[index],
                totals[index],
                profile.scorers,
                index,
                place_of.get(candidates[index].id),
            )
            for index in shown
        ],
        not_shown=len(candidates) - len(shown),
    )


def _failed_profile(name: str, filters: Sequence[FilterResult]) -> ProfilePart:
    left = len(filters[-1].after)
    return ProfilePart(
        name=name,
        is_primary=False,
        role="",
        picked=[],
        reason=NOTHING_LEFT if not left else "it picked nothing",
        candidates=left,
        filters=[_filter(each) for each in filters],
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


def _candidate(
    endpoint: Endpoint,
    total: float,
    scorers: Sequence[ScorerResult],
    index: int,
    picked: int | None,
) -> CandidatePart:
    return CandidatePart(
        address=endpoint.address,
        total=total,
        scores=[each.scores[index] for each in scorers],
        weighted=[each.weight * each.scores[index] for each in scorers],
        picked=picked,
    )


def _phases(decision: Decision) -> Iterable[PhasePart]:
    started, scheduling = decision.started_at, decision.scheduling_at
    if started is None or scheduling is None:
        return
    yield PhasePart(name="body", seconds=_seconds(started - decision.received_at))
    yield PhasePart(name="preparation", seconds=_seconds(scheduling - started))
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
