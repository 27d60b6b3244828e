"""How traffic is divided between the revisions of a rollout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

Counts = Mapping[str, Mapping[str, int]]
"""Number of pods by revision, then by role."""


class GatingMode(StrEnum):
    """What a revision's share is proportional to."""

    SUM = "sum"
    """Its pods in all required roles."""
    MAX_ROLE = "max-role"
    """Its pods in the role that has the most of all revisions' pods."""
    DISABLED = "disabled"
    """Revisions are not told apart."""


def count_by_role(pods: Iterable[tuple[str, str]]) -> dict[str, Counter[str]]:
    """Pods, each given as revision and role, counted."""
    counts: dict[str, Counter[str]] = {}
    for revision, role in pods:
        counts.setdefault(revision, Counter())[role] += 1
    return counts


def revision_shares(
    counts: Counts, required_roles: Sequence[str], mode: GatingMode
) -> dict[str, float]:
    """The share of each revision, 0 to 1; one that lacks a required role gets nothing."""
    complete = {
        revision: by_role
        for revision, by_role in counts.items()
        if all(by_role.get(role, 0) > 0 for role in required_roles)
    }
    counted = required_roles
    if mode is GatingMode.MAX_ROLE:
        totals = {role: sum(n.get(role, 0) for n in complete.values()) for role in required_roles}
        counted = (max(required_roles, key=totals.__getitem__),)
    weights = {
        revision: sum(by_role.get(role, 0) for role in counted)
        for revision, by_role in complete.items()
    }
    total = sum(weights.values())
    return {revision: weights.get(revision, 0) / total if total else 0.0 for revision in counts}
