"""The endpoints that a profile scored, in JSON: scores, and what was known of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.admin.decision_view import CandidatePart, LoadPart, PrefixPart

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint, EndpointMetrics
    from epp.framework.scheduling_results import ProfileResult, ReportedLoad
    from epp.request_control.decision_log import Decision

MOST_ENDPOINTS = 64
"""Endpoints that are told one by one, in each list."""


def view_candidates(profile: ProfileResult, decision: Decision) -> list[CandidatePart]:
    """By falling total, at most `MOST_ENDPOINTS` and those that were picked."""
    place_of = {endpoint.id: place for place, endpoint in enumerate(profile.endpoints, 1)}
    totals, candidates = profile.totals, profile.candidates
    scored = range(min(len(totals), len(candidates)))
    order = sorted(scored, key=lambda index: (-totals[index], candidates[index].id not in place_of))
    shown = order[:MOST_ENDPOINTS]
    shown += [index for index in order[MOST_ENDPOINTS:] if candidates[index].id in place_of]
    return [
        CandidatePart(
            address=candidates[index].address,
            total=totals[index],
            scores=[each.scores[index] for each in profile.scorers],
            weighted=[each.weight * each.scores[index] for each in profile.scorers],
            picked=place_of.get(candidates[index].id),
            load=_load(candidates[index], index, profile, decision),
            prefix=_prefix(candidates[index], decision),
        )
        for index in shown
    ]


def _load(
    endpoint: Endpoint, index: int, profile: ProfileResult, decision: Decision
) -> LoadPart | None:
    load: ReportedLoad | EndpointMetrics
    if profile.loads:
        load = profile.loads[index]
    elif decision.is_dry_run:  # of this moment, then
        load = endpoint.metrics
    else:
        return None
    if load.updated_at is None:
        return None
    seen_at = decision.decided_at if profile.started_at is None else profile.started_at
    return LoadPart(
        waiting=load.waiting_queue_size,
        running=load.running_requests_size,
        kv_cache_usage=round(load.kv_cache_usage, 4),
        age_seconds=round(max(seen_at - load.updated_at, 0.0), 3),
    )


def _prefix(endpoint: Endpoint, decision: Decision) -> PrefixPart | None:
    match = None if decision.matches is None else decision.matches.get(endpoint)
    if match is None:
        return None
    return PrefixPart(
        matched_blocks=match.match_blocks,
        prompt_blocks=match.total_blocks,
        block_tokens=match.block_size_tokens,
    )
