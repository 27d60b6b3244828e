"""`running-requests-size-scorer`."""

from __future__ import annotations

import pytest

from epp.framework.data_types import RUNNING_REQUESTS_SIZE
from epp.plugins.scorers.running_requests_size import RunningRequestsSizeScorer
from epp.testing import FakeContext, built, endpoint_of, request_of


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        pytest.param([4, 9, 0], [0.555556, 0, 1], id="G4"),
        pytest.param([9, 9], [1, 1], id="equal"),
    ],
)
def test_scores_are_the_references(running: list[int], expected: list[float]) -> None:
    endpoints = [endpoint_of(f"e{i}", running=count) for i, count in enumerate(running)]

    scores = built(RunningRequestsSizeScorer).score(request_of(), endpoints)

    assert scores == pytest.approx(expected, abs=5e-7)


def test_the_metric_it_reads_is_declared() -> None:
    context = FakeContext()

    built(RunningRequestsSizeScorer, context)

    assert [made.data_type for made in context.inputs if made.required] == [RUNNING_REQUESTS_SIZE]
