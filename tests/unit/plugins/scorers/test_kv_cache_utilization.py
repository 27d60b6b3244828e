"""`kv-cache-utilization-scorer`."""

from __future__ import annotations

import pytest

from epp.framework.data_types import KV_CACHE_USAGE_PERCENT
from epp.plugins.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from epp.testing import FakeContext, built, endpoint_of, request_of


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param([0.35, 0.9, 1.0, 0], [0.65, 0.1, 0, 1], id="G5"),
        pytest.param([1.05], [-0.05], id="G6"),
    ],
)
def test_scores_are_the_references(usage: list[float], expected: list[float]) -> None:
    endpoints = [endpoint_of(f"e{i}", kv=share) for i, share in enumerate(usage)]

    scores = built(KvCacheUtilizationScorer).score(request_of(), endpoints)

    assert scores == pytest.approx(expected, abs=5e-7)


def test_the_metric_it_reads_is_declared() -> None:
    context = FakeContext()

    built(KvCacheUtilizationScorer, context)

    assert [made.data_type for made in context.inputs if made.required] == [KV_CACHE_USAGE_PERCENT]
