"""How traffic is divided between revisions."""

from __future__ import annotations

import pytest

from epp.plugins.screeners.revision_shares import GatingMode, count_by_role, revision_shares

ROLLOUT = {"a": {"prefill": 2, "decode": 9}, "b": {"prefill": 1, "decode": 1}}
ROLES = ("prefill", "decode")


@pytest.mark.parametrize(
    ("mode", "shares"),
    [
        (GatingMode.SUM, {"a": 11 / 13, "b": 2 / 13}),
        (GatingMode.MAX_ROLE, {"a": 0.9, "b": 0.1}),
    ],
)
def test_shares_follow_the_pods(mode: GatingMode, shares: dict[str, float]) -> None:
    assert revision_shares(ROLLOUT, ROLES, mode) == pytest.approx(shares)


@pytest.mark.parametrize("mode", [GatingMode.SUM, GatingMode.MAX_ROLE])
def test_a_revision_without_a_required_role_gets_nothing_and_counts_for_nothing(
    mode: GatingMode,
) -> None:
    counts = {**ROLLOUT, "c": {"decode": 100, "prefill": 0}, "d": {"prefill": 50}}
    shares = revision_shares(counts, ROLES, mode)

    assert (shares["c"], shares["d"]) == (0, 0)
    assert shares["a"] + shares["b"] == pytest.approx(1)


def test_the_first_role_wins_when_there_are_as_many_of_each() -> None:
    counts = {"a": {"prefill": 3, "decode": 1}, "b": {"prefill": 1, "decode": 3}}

    shares = revision_shares(counts, ROLES, GatingMode.MAX_ROLE)

    assert shares == {"a": 0.75, "b": 0.25}


def test_without_a_complete_revision_there_are_no_shares() -> None:
    assert revision_shares({"a": {"prefill": 1}}, ROLES, GatingMode.SUM) == {"a": 0}
    assert revision_shares({}, ROLES, GatingMode.MAX_ROLE) == {}


def test_pods_are_counted_by_revision_and_role() -> None:
    counts = count_by_role([("a", "prefill"), ("a", "prefill"), ("b", "decode")])

    assert counts == {"a": {"prefill": 2}, "b": {"decode": 1}}
