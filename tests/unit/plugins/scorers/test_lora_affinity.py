"""`lora-affinity-scorer`."""

from __future__ import annotations

import pytest

from epp.framework.data_types import ACTIVE_MODELS, WAITING_MODELS
from epp.framework.endpoint import Endpoint
from epp.plugins.scorers.lora_affinity import LoraAffinityScorer
from epp.testing import FakeContext, built, endpoint_of, request_of


def endpoint(active: str, waiting: str, most: int) -> Endpoint:
    return endpoint_of(
        active_models=frozenset(active.split()),
        waiting_models=frozenset(waiting.split()),
        max_active_models=most,
    )


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        pytest.param(
            [
                endpoint("sql-lora", "", 1),
                endpoint("a", "", 2),
                endpoint("a b", "sql-lora", 2),
                endpoint("a b", "", 2),
                endpoint("", "", 0),
                endpoint("a", "sql-lora", 4),
            ],
            [1, 0.8, 0.6, 0, 0, 0.8],
            id="G10",
        )
    ],
)
def test_scores_are_the_references(endpoints: list[Endpoint], expected: list[float]) -> None:
    assert built(LoraAffinityScorer).score(request_of("sql-lora"), endpoints) == expected


def test_an_adapter_that_runs_and_is_waited_for_takes_one_place() -> None:
    both = endpoint("a", "a", 2)

    assert built(LoraAffinityScorer).score(request_of("b"), [both]) == [0.8]


def test_the_rewritten_model_counts_not_the_one_that_was_asked_for() -> None:
    request = request_of("alias")
    request.target_model = "sql-lora"

    scores = built(LoraAffinityScorer).score(request, [endpoint("sql-lora", "", 1)])

    assert scores == [1]


def test_the_metrics_it_reads_are_declared() -> None:
    context = FakeContext()

    built(LoraAffinityScorer, context)

    declared = [made.data_type for made in context.inputs if made.required]
    assert declared == [ACTIVE_MODELS, WAITING_MODELS]
