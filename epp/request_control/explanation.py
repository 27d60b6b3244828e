"""Why an endpoint was picked, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest
    from epp.framework.scheduling_results import ProfileResult, SchedulingResult, ScorerResult

SCORES_NAMESPACE = "envoy.lb"
SCORES_KEY = "x-gateway-destination-endpoint-scores"

MOST_SHOWN = 8
"""Candidates told of in a header or a log line."""
MOST_TEXT = 4096
"""Characters of a decision with all its scores: gateways limit the headers of a message."""
MOST_SCORERS = 5
"""Scorers told of in a log line: those that count most."""
MOST_FILTERS = 3
MOST_PROFILES = 4


def reason_of(result: SchedulingResult) -> str:
    """How the picked endpoint compares with the others, and what other profiles picked.

    What matters most comes first: lines are cut at their end.
    """
    text = profile_reason(result.profiles[result.primary])
    others = [name for name in result.profiles if name != result.primary]
    if not others:
        return text
    told = [f"{name} {_short_text(result.profiles[name])}" for name in others[:MOST_PROFILES]]
    if len(others) > MOST_PROFILES:
        told.append(f"and {len(others) - MOST_PROFILES} more profiles")
    return "; ".join([f"{result.primary} {text}", *told])


def tell_scores(request: InferenceRequest, result: SchedulingResult) -> None:
    """Let the gateway know the totals of the primary profile by address, if there are any."""
    profile = result.profiles[result.primary]
    scores = {
        endpoint.address: total
        for endpoint, total in zip(profile.candidates, profile.totals, strict=False)
    }
    if scores:
        request.dynamic_metadata.setdefault(SCORES_NAMESPACE, {})[SCORES_KEY] = scores


def decision_text(result: SchedulingResult) -> str:
    """Every scorer's word on every candidate, best first, as far as there is room for it.

    Printable ASCII, fit for a header; names of plugins and profiles may be anything.
    """
    text = "; ".join(_scores_text(name, profile) for name, profile in result.profiles.items())
    if len(text) > MOST_TEXT:
        text = f"{text[: MOST_TEXT - 3]}..."
    if text.isascii() and text.isprintable():
        return text
    return "".join([char if " " <= char <= "~" else "?" for char in text])


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


def profile_reason(profile: ProfileResult) -> str:
    """How the endpoint that a profile picked compares with its other candidates."""
    index = _place(profile)
    text = f"{_rank(profile, index)}{_filtered_text(profile)}"
    if index is None or not profile.scorers:
        return text
    return f"{text}: {profile.totals[index]:.2f} = {_sum_text(profile.scorers, index)}"


def _short_text(profile: ProfileResult) -> str:
    """For profiles whose endpoint is not where the request goes."""
    index = _place(profile)
    scored = "" if index is None or not profile.scorers else f": {profile.totals[index]:.2f}"
    return f"-> {profile.endpoints[0].address} {_rank(profile, index)}{scored}"


def _rank(profile: ProfileResult, index: int | None) -> str:
    """The picked endpoint among the candidates; not every picker takes the best."""
    count = len(profile.candidates)
    if count == 1:
        return "only endpoint"
    if index is None or not profile.scorers:
        return f"one of {count} endpoints"
    total, best = profile.totals[index], max(profile.totals)
    if total < best:
        return f"one of {count} endpoints, the best with {best:.2f}"
    equals = profile.totals.count(total)
    if equals == count:
        return f"one of {count} equal endpoints"
    return f"{'best' if equals == 1 else f'one of {equals} best'} of {count} endpoints"


def _filtered_text(profile: ProfileResult) -> str:
    by = [(each.name, len(each.before) - len(each.after)) for each in profile.filters]
    dropped = [(name, count) for name, count in by if count]
    if not dropped:
        return ""
    names = [f"{name} {count}" for name, count in dropped[:MOST_FILTERS]]
    if len(dropped) > MOST_FILTERS:
        names.append("...")
    return f" ({sum(count for _, count in dropped)} filtered out: {', '.join(names)})"


def _sum_text(scorers: Sequence[ScorerResult], index: int) -> str:
    shown = scorers
    if len(scorers) > MOST_SCORERS:
        shown = sorted(scorers, key=lambda each: -abs(each.weight * each.scores[index]))
        shown = shown[:MOST_SCORERS]
    parts = [f"{_short(each.name)} {each.scores[index]:.2f}x{each.weight:g}" for each in shown]
    if len(scorers) > MOST_SCORERS:
        parts.append(f"{len(scorers) - MOST_SCORERS} more")
    return " + ".join(parts)


def _short(scorer: str) -> str:
    # Scorers stand where only scorers do, and three of them fill a line.
    return scorer.removesuffix("-scorer") or scorer


def _place(profile: ProfileResult) -> int | None:
    """Where the picked endpoint is among the candidates, if these were scored."""
    picked = profile.picked  # which looks for it, too
    for index, candidate in enumerate(profile.candidates[: len(profile.totals)]):
        if candidate is picked:
            return index
    return None
