"""Why an endpoint was picked, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.scheduling import ProfileResult, SchedulingResult, ScorerResult

MOST_SHOWN = 8
"""Candidates told of in a header or a log line."""


def reason_of(result: SchedulingResult) -> str:
    """What the profiles made of the first endpoint of each, the primary one first."""
    if result.note:
        return result.note
    names = [result.primary, *(name for name in result.profiles if name != result.primary)]
    texts = [_profile_text(result.profiles[name]) for name in names]
    if len(names) == 1:
        return texts[0]
    return "; ".join(f"{name}: {text}" for name, text in zip(names, texts, strict=True))


def scores_by_endpoint(result: SchedulingResult) -> dict[str, float]:
    """Totals of the primary profile by address; empty if nothing was scored."""
    profile = result.profiles[result.primary]
    return {
        endpoint.address: total
        for endpoint, total in zip(profile.candidates, profile.totals, strict=False)
    }


def decision_text(result: SchedulingResult) -> str:
    """Every scorer's word on every candidate, best first, as far as there is room for it."""
    return "; ".join(_scores_text(name, profile) for name, profile in result.profiles.items())


def _scores_text(name: str, profile: ProfileResult) -> str:
    order = sorted(range(len(profile.totals)), key=lambda index: -profile.totals[index])
    lines = [
        f"{profile.candidates[index].address}={profile.totals[index]:.4g}"
        f"({', '.join(_score_text(scorer, index) for scorer in profile.scorers)})"
        for index in order[:MOST_SHOWN]
    ]
    if len(order) > MOST_SHOWN:
        lines.append(f"and {len(order) - MOST_SHOWN} more")
    picked = ",".join(map(str, profile.endpoints))
    return f"{name} -> {picked}: {' '.join(lines)}".removesuffix(": ")


def _score_text(scorer: ScorerResult, index: int) -> str:
    score = scorer.scores[index] if index < len(scorer.scores) else 0.0
    return f"{scorer.name} {score:.4g}x{scorer.weight:g}"


def _profile_text(profile: ProfileResult) -> str:
    count = len(profile.candidates)
    filtered = len(profile.filters[0].before) - count if profile.filters else 0
    among = f"of {count} endpoint{'s' * (count != 1)}"
    if filtered:
        among += f" ({filtered} filtered out)"
    picked = profile.endpoints[0]
    total = _at(profile, picked, profile.totals)
    if total is None or not profile.scorers:
        return among
    parts = [
        f"{scorer.name} {_at(profile, picked, scorer.scores) or 0:.2f}x{scorer.weight:g}"
        for scorer in profile.scorers
    ]
    return f"{' + '.join(parts)} = {total:.2f}, best {among}"


def _at(profile: ProfileResult, endpoint: Endpoint, values: Sequence[float]) -> float | None:
    for candidate, value in zip(profile.candidates, values, strict=False):
        if candidate is endpoint:
            return value
    return None
