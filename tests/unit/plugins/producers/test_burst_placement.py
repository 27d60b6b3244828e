"""Joint placement of the requests of a burst."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from epp.framework.endpoint import Endpoint
from epp.plugins.producers.burst_placement import BurstRequest, PlacementRules, place
from epp.testing import endpoint_of

E1, E2, E3, E4 = REPLICAS = [endpoint_of(f"e{number}") for number in (1, 2, 3, 4)]


def burst(
    *prompts: list[int], replicas: list[Endpoint] = REPLICAS, rules: PlacementRules | None = None
) -> list[str | None]:
    batch = [BurstRequest([prompt], replicas) for prompt in prompts]
    place(batch, rules or PlacementRules())
    return [request.target.pod_name if request.target is not None else None for request in batch]


def test_requests_with_the_same_prompt_go_together_and_groups_apart() -> None:
    assert burst([1, 2], [7, 8], [1, 2], [7, 8], [1, 2]) == ["e1", "e2", "e1", "e2", "e1"]


def test_requests_that_share_nothing_are_left_to_others() -> None:
    assert burst([1, 2], [1, 3], [4], []) == [None] * 4
    assert burst([], []) == [None, None]


def test_the_longest_prompt_is_placed_first() -> None:
    assert burst([1], [1], [5, 6, 7], [5, 6, 7]) == ["e2", "e2", "e1", "e1"]


def test_single_requests_join_those_they_share_enough_leading_blocks_with() -> None:
    rules = PlacementRules(min_colocate_blocks=2)

    targets = burst([1, 2, 3], [1, 2, 4], [1, 9], [8, 9], rules=rules, replicas=[E1])

    assert targets == ["e1", "e1", None, None]


def test_groups_that_share_a_prefix_go_together_within_their_fair_share() -> None:
    rules = PlacementRules(min_colocate_blocks=2)

    targets = burst(
        *[[1, 2, 3]] * 2, *[[1, 2, 4]] * 2, *[[7, 8, 5]] * 2, *[[7, 8, 6]] * 2,
        rules=rules, replicas=[E1, E2],
    )  # fmt: skip

    assert targets[0] == targets[2] != targets[4] == targets[6]
    assert Counter(targets) == {"e1": 4, "e2": 4}


def test_a_prefix_shared_by_all_does_not_put_all_on_one_replica() -> None:
    rules = PlacementRules(min_colocate_blocks=2)

    targets = burst(*[[1, 2, 3 + number // 2] for number in range(8)], rules=rules)

    assert Counter(targets) == {"e1": 2, "e2": 2, "e3": 2, "e4": 2}


def test_a_group_spills_over_when_a_replica_has_as_many_as_it_may() -> None:
    rules = PlacementRules(max_per_replica=2)

    assert burst(*[[1]] * 5, rules=rules, replicas=[E1, E2]) == ["e1", "e1", "e2", "e2", "e1"]


def test_ties_are_broken_by_running_requests_then_by_name() -> None:
    replicas = [endpoint_of("e9", running=1), endpoint_of("e8"), endpoint_of("e7")]

    assert burst([1], [1], [2], [2], [3], [3], replicas=replicas) == [
        "e7", "e7", "e8", "e8", "e9", "e9",
    ]  # fmt: skip


def test_balancing_tokens_weighs_prompts_by_what_is_left_to_compute() -> None:
    long, short, other = [[1, 2, 3, 4, 5, 6]] * 2, [[7]] * 4, [[8, 9]] * 2

    by_requests = burst(*long, *short, *other, replicas=[E1, E2])
    rules = PlacementRules(by_tokens=True)
    by_tokens = burst(*long, *short, *other, replicas=[E1, E2], rules=rules)

    assert by_requests == ["e1"] * 2 + ["e1"] * 4 + ["e2"] * 2
    assert by_tokens == ["e1"] * 2 + ["e2"] * 4 + ["e2"] * 2


prompts = st.lists(
    st.lists(st.integers(0, 3), max_size=4).map(lambda tail: [1, 2, *tail]), max_size=20
)


@example([[1, 2]] * 4, PlacementRules(max_per_replica=1, min_colocate_blocks=0, by_tokens=True), 2)
@given(
    prompts,
    st.builds(
        PlacementRules,
        max_per_replica=st.none() | st.integers(1, 3),
        min_colocate_blocks=st.integers(0, 3),
        by_tokens=st.booleans(),
    ),
    st.integers(1, 4),
)
def test_everybody_with_a_twin_is_placed_and_no_group_exceeds_its_limit(
    prompts: list[list[int]], rules: PlacementRules, count: int
) -> None:
    targets = burst(*prompts, rules=rules, replicas=REPLICAS[:count])

    twins = Counter(map(tuple, prompts))
    for prompt, target in zip(prompts, targets, strict=True):
        assert target is not None or twins[tuple(prompt)] == 1
    placed = Counter(
        (tuple(prompt), target) for prompt, target in zip(prompts, targets, strict=True)
    )
    for (twin, target), number in placed.items():
        if rules.max_per_replica is not None and target is not None:
            even = -(-twins[twin] // count)
            assert number <= max(rules.max_per_replica, even)
