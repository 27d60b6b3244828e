"""Scorers of endpoints that stand for clusters."""

from __future__ import annotations

from math import nan

import pytest

from epp.framework.data import DataType, Output
from epp.framework.data_types import (
    MULTICLUSTER_KV_CACHE_UTILIZATION,
    MULTICLUSTER_QUEUE_SIZE,
    PREFIX_MATCH,
    PrefixMatch,
)
from epp.framework.endpoint import Endpoint
from epp.framework.scheduling import Scorer
from epp.plugins.scorers.multicluster import (
    MulticlusterKvCacheUtilizationScorer,
    MulticlusterPrefixCacheScorer,
    MulticlusterQueueScorer,
)
from epp.testing import FakeContext, built, endpoint_of, put, request_of


def clusters(data_type: DataType[float], values: list[float | None]) -> list[Endpoint]:
    endpoints = [endpoint_of(f"e{index}", waiting=index, kv=0.5) for index in range(len(values))]
    for endpoint, value in zip(endpoints, values, strict=True):
        if value is not None:
            Output(data_type, "").put_on(endpoint, value)
    return endpoints


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([10, 5, 0], [0, 0.5, 1]),
        ([4, None, 0], [0, nan, 1]),
        ([3, 3, None], [1, 1, nan]),
        ([None, None], [nan, nan]),
    ],
    ids=["all known", "one unknown", "equal", "none known"],
)
def test_queues_are_relative_to_those_that_are_known(
    values: list[float | None], expected: list[float]
) -> None:
    endpoints = clusters(MULTICLUSTER_QUEUE_SIZE, values)

    scores = built(MulticlusterQueueScorer).score(request_of(), endpoints)

    assert scores == pytest.approx(expected, nan_ok=True)


def test_the_free_share_of_a_clusters_cache_is_its_score() -> None:
    endpoints = clusters(MULTICLUSTER_KV_CACHE_UTILIZATION, [0.25, None, 1])

    scores = built(MulticlusterKvCacheUtilizationScorer).score(request_of(), endpoints)

    assert scores == pytest.approx([0.75, nan, 0], nan_ok=True)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (MulticlusterQueueScorer, "llm-d.ai/multicluster-queue-size/"),
        (MulticlusterKvCacheUtilizationScorer, "llm-d.ai/multicluster-kv-cache-utilization/"),
    ],
)
def test_the_attribute_is_read_whoever_writes_it(kind: type[Scorer], key: str) -> None:
    context = FakeContext()

    built(kind, context)

    assert [made.key for made in context.inputs] == [key]


def test_the_cached_share_of_the_prompt_is_a_clusters_score() -> None:
    request = request_of()
    some, unknown = endpoint_of("e1"), endpoint_of("e2")
    put(PREFIX_MATCH, request, {some: PrefixMatch(2, 8, 64)}, "clusters")

    scorer = built(MulticlusterPrefixCacheScorer, prefix_match_info_producer_name="clusters")

    assert scorer.score(request, [some, unknown]) == [0.25, 0]
    assert scorer.type == "multicluster-prefix-cache-scorer"
