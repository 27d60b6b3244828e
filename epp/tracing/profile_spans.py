"""Spans of a scheduling cycle, named as the reference names them (operations §3)."""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from epp.framework.endpoint import Endpoint
    from epp.framework.scheduling_results import ProfileResult, ScorerResult
    from epp.tracing.span import Attributes, AttributeValue, SpanList

MOST_TOP_ENDPOINTS = 5
"""Best candidates named with their totals, as many as the reference names."""


def add_profile(
    spans: SpanList, parent: int, name: str, profile: ProfileResult, request: Attributes
) -> None:
    """The run of a profile: filters, scorers, picker."""
    started, picking = profile.started_at, profile.picking_at
    if started is None or picking is None:
        return  # made by a plugin, without times
    ended = started + profile.seconds
    run = _add_run(spans, parent, name, started, ended)
    filtered = _filters_ended(profile, started)
    _add_filters(spans, run, profile, started, filtered, request)
    _add_scoring(spans, run, profile, filtered, picking, request)
    spans.add("pick_endpoints", run, picking, ended, {**_picking(profile), **request})


def add_unpicked(
    spans: SpanList, parent: int, name: str, profile: ProfileResult, request: Attributes
) -> None:
    """The run of a profile that picked nothing, as far as it came."""
    started = profile.filters[0].started_at if profile.filters else None
    if started is None:
        return
    ended = _filters_ended(profile, started)
    run = _add_run(spans, parent, name, started, ended)
    _add_filters(spans, run, profile, started, ended, request)


def _add_run(spans: SpanList, parent: int, name: str, started: float, ended: float) -> int:
    attributes = {"llm_d.epp.scheduling.profile.name": name}
    return spans.add("run_scheduler_profile", parent, started, ended, attributes)


def _add_filters(
    spans: SpanList,
    parent: int,
    profile: ProfileResult,
    started: float,
    ended: float,
    request: Attributes,
) -> None:
    before = profile.filters[0].before if profile.filters else profile.candidates
    attributes: dict[str, AttributeValue] = {
        "llm_d.epp.filter.candidate_endpoints": len(before),
        "llm_d.epp.filter.filtered_endpoints": len(profile.candidates),
    }
    spans.add("filter_endpoints", parent, started, ended, {**attributes, **request})


def _filters_ended(profile: ProfileResult, started: float) -> float:
    if not profile.filters:
        return started
    last = profile.filters[-1]
    return started if last.started_at is None else last.started_at + last.seconds


def _add_scoring(
    spans: SpanList,
    parent: int,
    profile: ProfileResult,
    started: float,
    ended: float,
    request: Attributes,
) -> None:
    candidates = len(profile.candidates)
    scoring = spans.add(
        "llm_d.epp.scoring",
        parent,
        started,
        ended,
        {
            "llm_d.epp.scorer.count": len(profile.scorers),
            "llm_d.epp.scoring.candidate_endpoints": candidates,
            **request,
        },
    )
    for scorer in profile.scorers:
        # Scores that were kept from another request took no time.
        at = started if scorer.started_at is None else scorer.started_at
        started = at + scorer.seconds
        name = f"llm_d.epp.scorer.{scorer.type or scorer.name}"
        spans.add(name, scoring, at, started, _scores(scorer, candidates))


def _scores(scorer: ScorerResult, candidates: int) -> Attributes:
    attributes: dict[str, AttributeValue] = {
        "llm_d.epp.scorer.type": scorer.type,
        "llm_d.epp.scorer.name": scorer.name,
        "llm_d.epp.scorer.weight": scorer.weight,
        "llm_d.epp.scorer.candidate_endpoints": candidates,
    }
    scores = scorer.scores
    if scores:
        attributes["llm_d.epp.scorer.score.max"] = max(scores)
        attributes["llm_d.epp.scorer.score.avg"] = sum(scores) / len(scores)
        attributes["llm_d.epp.scorer.endpoints_scored"] = len(scores)
    return attributes


def _picking(profile: ProfileResult) -> Attributes:
    attributes: dict[str, AttributeValue] = {
        "llm_d.epp.picker.candidate_endpoints": len(profile.candidates)
    }
    top = _top(profile.candidates, profile.totals)
    if top:
        attributes["llm_d.epp.picker.top_endpoints"] = [name_of(endpoint) for endpoint, _ in top]
        attributes["llm_d.epp.picker.top_scores"] = [total for _, total in top]
    return attributes


def _top(
    candidates: Sequence[Endpoint], totals: Sequence[float]
) -> Sequence[tuple[Endpoint, float]]:
    return heapq.nlargest(MOST_TOP_ENDPOINTS, zip(candidates, totals, strict=False), itemgetter(1))


def name_of(endpoint: Endpoint) -> str:
    """An endpoint as traces name it: `namespace/pod-rank-0`."""
    return f"{endpoint.namespace}/{endpoint.name}"
