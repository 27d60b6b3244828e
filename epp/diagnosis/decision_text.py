"""A decision as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from epp.diagnosis.columns import columns
from epp.support.safe_text import printable

if TYPE_CHECKING:
    from epp.admin.decision_view import (
        CandidatePart,
        DecisionList,
        DecisionPart,
        LoadPart,
        PrefixPart,
        ProfilePart,
        Summary,
    )

MOST_NAMED = 8
"""Addresses in one cell."""
_REASON = 1000
_DRY_RUN = "dry run: nothing was sent, reserved, counted or learnt"


def decision_text(decision: DecisionPart) -> str:
    """All that is known of a decision, the outcome first."""
    sections = [
        list(_outcome(decision)),
        list(_candidates(decision)),
        *(list(_profile(profile)) for profile in decision.profiles),
        list(_times(decision)),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def decision_table(decisions: DecisionList) -> str:
    """The last decisions, one a line."""
    if not decisions.decisions:
        return "no decision yet\n"
    rows = [("DECIDED", "REQUEST", "MODEL", "ENDPOINT", "WHY")]
    rows += [_row(each) for each in decisions.decisions]
    shown = len(decisions.decisions)
    end = f"{shown} of {decisions.kept} kept; epp explain REQUEST tells all of one\n"
    return "\n".join([*columns(rows), "", end])


def _row(decision: Summary) -> tuple[str, str, str, str, str]:
    endpoint = ",".join(decision.endpoints) or decision.outcome
    return decision.decided_at, decision.request_id, decision.model, endpoint, decision.reason


def _outcome(decision: DecisionPart) -> Iterator[str]:
    dry_run = f" ({_DRY_RUN})" if decision.is_dry_run else ""
    yield f"request      {printable(decision.request_id)}{dry_run}"
    yield f"path         {printable(decision.path)}"
    if decision.model or decision.target_model:
        rewritten = decision.target_model if decision.target_model != decision.model else ""
        sent_as = f", sent as {rewritten}" if rewritten else ""
        yield f"model        {printable(f'{decision.model}{sent_as}')}"
    yield f"priority     {decision.priority}, fairness id {printable(decision.fairness_id)}"
    took = "" if decision.seconds is None else f", in {_milliseconds(decision.seconds)}"
    yield f"decided      {decision.decided_at}{took}"
    rejection = decision.rejection
    if rejection is not None:
        yield f"rejected     {rejection.status} {rejection.code}, {printable(rejection.details)}"
    else:
        yield f"endpoint     {', '.join(decision.endpoints) or 'none: the gateway chooses'}"
    yield f"why          {printable(decision.reason, _REASON)}"


def _candidates(decision: DecisionPart) -> Iterator[str]:
    if decision.pool_size is None:
        return
    left = decision.pool_size
    rows = [("CANDIDATES", "LEFT", "LEFT OUT"), ("endpoints of the pool", str(left), "")]
    for each in decision.left_out:
        left -= each.count
        plugin = f" {each.plugin}" if each.plugin else ""
        rows.append((f"after {each.by}{plugin}", str(left), _named(each.endpoints, each.count)))
    yield from columns(rows)


def _profile(profile: ProfilePart) -> Iterator[str]:
    role = f", {profile.role}" if profile.role else ""
    primary = " (primary)" if profile.is_primary else ""
    picked = ", ".join(profile.picked) or "nobody"
    yield printable(f"profile {profile.name}{primary}{role} picked {picked}: {profile.reason}")
    if profile.filters:
        yield ""
        rows = [("FILTER", "BEFORE", "AFTER", "REMOVED")]
        rows += [
            (
                each.plugin,
                str(each.before),
                str(each.after),
                _named(each.removed, each.before - each.after),
            )
            for each in profile.filters
        ]
        yield from columns(rows)
    if profile.endpoints:
        yield ""
        scorers = [f"{each.plugin} x{each.weight:g}" for each in profile.scorers]
        heading = ["ENDPOINT", "TOTAL", *scorers, "PICKED"]
        yield from columns([heading, *(_candidate(each) for each in profile.endpoints)])
        yield from _known(profile.endpoints)
    if profile.not_shown:
        yield f"and {profile.not_shown} more"


def _candidate(candidate: CandidatePart) -> list[str]:
    pairs = zip(candidate.scores, candidate.weighted, strict=True)
    said = [f"{raw:.3f} -> {weighted:.3f}" for raw, weighted in pairs]
    place = candidate.picked
    picked = "" if place is None else "picked" if place == 1 else f"fallback {place - 1}"
    return [candidate.address, f"{candidate.total:.3f}", *said, picked]


def _known(candidates: Sequence[CandidatePart]) -> Iterator[str]:
    """What the scores were made of, as far as it was kept."""
    if all(each.load is None for each in candidates):
        return
    rows = [["ENDPOINT", "WAITING", "RUNNING", "KV CACHE", "AGE", "PREFIX"]]
    rows += [[each.address, *_load(each.load), _prefix(each.prefix)] for each in candidates]
    has_prefix = any(each.prefix is not None for each in candidates)
    yield ""
    yield from columns([row if has_prefix else row[:-1] for row in rows])


def _load(load: LoadPart | None) -> list[str]:
    if load is None:
        return ["", "", "", "never heard of"]
    usage, age = f"{load.kv_cache_usage:.1%}", f"{load.age_seconds:.3f} s"
    return [str(load.waiting), str(load.running), usage, age]


def _prefix(prefix: PrefixPart | None) -> str:
    if prefix is None:
        return ""
    matched, blocks = prefix.matched_blocks, prefix.prompt_blocks
    return f"{matched} of {blocks} blocks of {prefix.block_tokens} tokens"


def _times(decision: DecisionPart) -> Iterator[str]:
    rows = [("TIME", "STEP", "PLUGIN", "PROFILE")]
    rows += [(_milliseconds(each.seconds), each.name, "", "") for each in decision.phases]
    rows += [
        (
            _milliseconds(each.seconds),
            each.extension_point,
            f"{each.plugin} FAILED" if each.failed else each.plugin,
            each.profile,
        )
        for each in decision.steps
    ]
    rows += [
        ("kept", "Scorer", scorer.plugin, profile.name)
        for profile in decision.profiles
        for scorer in profile.scorers
        if scorer.is_kept
    ]
    if len(rows) > 1:
        # Without plugins these columns would be empty.
        yield from columns([row if rows[-1][2] else row[:2] for row in rows])


def _named(addresses: Sequence[str], count: int) -> str:
    shown = list(addresses[:MOST_NAMED])
    if count > len(shown):
        shown.append(f"and {count - len(shown)} more" if shown else str(count))
    return ", ".join(shown)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3f} ms"
