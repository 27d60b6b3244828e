"""`queue-scorer`."""

from __future__ import annotations

import pytest

from epp.framework.data_types import WAITING_QUEUE_SIZE
from epp.plugins.scorers.queue import QueueScorer
from epp.testing import FakeContext, built, endpoint_of, request_of


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param([7, 3, 12, 3], [0.555556, 1, 0, 1], id="G1"),
        pytest.param([40], [1], id="G2"),
        pytest.param([10, 5, 0], [0, 0.5, 1], id="G3"),
    ],
)
def test_scores_are_the_references(waiting: list[int], expected: list[float]) -> None:
    endpoints = [endpoint_of(f"e{i}", waiting=size) for i, size in enumerate(waiting)]

    assert built(QueueScorer).score(request_of(), endpoints) == pytest.approx(expected, abs=5e-7)


def test_a_prompt_that_nobody_has_cached_goes_where_nobody_waits() -> None:
    loaded = endpoint_of("e1", waiting=40, kv=0.1)
    idle = endpoint_of("e2", waiting=0, kv=0.9)

    assert built(QueueScorer).score(request_of(), [loaded, idle]) == [0, 1]


def test_the_metric_it_reads_is_declared() -> None:
    context = FakeContext()

    built(QueueScorer, context)

    assert [made.data_type for made in context.inputs if made.required] == [WAITING_QUEUE_SIZE]
