"""`load-aware-scorer`."""

from __future__ import annotations

from typing import Any

import pytest

from epp.framework.data_types import WAITING_QUEUE_SIZE
from epp.plugins.scorers.load_aware import LoadAwareScorer
from epp.testing import FakeContext, built, endpoint_of, request_of


@pytest.mark.parametrize(
    ("parameters", "waiting", "expected"),
    [
        pytest.param({}, [0, 1, 64, 128, 200], [0.5, 0.496094, 0.25, 0, 0], id="G7"),
        pytest.param({"threshold": 10}, [2, 0, 15], [0.4, 0.5, 0], id="G8"),
        pytest.param({"threshold": -3}, [64], [0.25], id="G9"),
        pytest.param({"threshold": 0}, [64], [0.25], id="zero is the default"),
    ],
)
def test_scores_are_the_references(
    parameters: dict[str, Any], waiting: list[int], expected: list[float]
) -> None:
    endpoints = [endpoint_of(f"e{i}", waiting=size) for i, size in enumerate(waiting)]

    scores = built(LoadAwareScorer, **parameters).score(request_of(), endpoints)

    assert scores == pytest.approx(expected, abs=5e-7)


def test_the_metric_it_reads_is_declared() -> None:
    context = FakeContext()

    built(LoadAwareScorer, context)

    assert [made.data_type for made in context.inputs if made.required] == [WAITING_QUEUE_SIZE]
