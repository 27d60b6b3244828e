"""Load of the pools of other clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from epp.framework.data_layer import ExtractionError
from epp.framework.endpoint import Endpoint
from epp.plugins.extractors.multicluster import MulticlusterMetricsExtractor
from epp.plugins.scorers.multicluster import MulticlusterQueueScorer
from epp.testing import built, endpoint_of, request_of

PAGE = (Path(__file__).parents[3] / "samples" / "metrics" / "epp_pool_aggregate.prom").read_bytes()
QUEUE = "llm-d.ai/multicluster-queue-size/"
USAGE = "llm-d.ai/multicluster-kv-cache-utilization/"


def kept(endpoint: Endpoint) -> tuple[object, object]:
    attributes = endpoint.state.attributes
    return attributes.get(QUEUE), attributes.get(USAGE)


def test_the_averages_of_the_pool_become_attributes_of_nobody_and_of_the_plugin() -> None:
    endpoint = endpoint_of()

    assert built(MulticlusterMetricsExtractor).extract(PAGE, endpoint, 1.0)

    assert kept(endpoint) == (1.75, 0.4411)
    assert endpoint.state.attributes[QUEUE + "multicluster-metrics-extractor"] == 1.75


def test_the_scorer_reads_what_was_extracted() -> None:
    by, endpoints = built(MulticlusterMetricsExtractor), [endpoint_of("e1"), endpoint_of("e2")]
    by.extract(PAGE, endpoints[0], 1.0)
    by.extract(PAGE.replace(b"1.75", b"9"), endpoints[1], 1.0)

    scores = built(MulticlusterQueueScorer).score(request_of(), endpoints)

    assert list(scores) == [1.0, 0.0]


def test_metrics_may_have_other_names() -> None:
    endpoint = endpoint_of()
    by = built(
        MulticlusterMetricsExtractor,
        queue_size_metric="q{pool=a}",
        kv_cache_utilization_metric="kv",
    )

    by.extract(b'q{pool="b"} 1\nq{pool="a"} 2\nkv 0.5\n', endpoint, 1.0)

    assert kept(endpoint) == (2, 0.5)


def test_a_missing_number_is_an_error_and_the_other_is_kept() -> None:
    endpoint = endpoint_of()

    with pytest.raises(ExtractionError) as caught:
        built(MulticlusterMetricsExtractor).extract(
            b"llm_d_epp_average_queue_size 4\n", endpoint, 1.0
        )

    assert (caught.value.applied, caught.value.count) == (True, 1)
    assert kept(endpoint) == (4, None)


@pytest.mark.parametrize("page", [b"", b"<html>", b'{"a": 1}', b"\x00\x01"])
def test_a_page_of_something_else_is_one_error(page: bytes) -> None:
    with pytest.raises(ExtractionError) as caught:
        built(MulticlusterMetricsExtractor).extract(page, endpoint_of(), 1.0)

    assert (caught.value.applied, caught.value.count) == (False, 1)
