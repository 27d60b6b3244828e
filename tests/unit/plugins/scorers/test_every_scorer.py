"""What holds of every scorer that reads what is known of endpoints, whatever that is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data import Output
from epp.framework.data_types import (
    IN_FLIGHT_LOAD,
    LATENCY_PREDICTION,
    MULTI_MODAL_MATCH,
    MULTICLUSTER_KV_CACHE_UTILIZATION,
    MULTICLUSTER_QUEUE_SIZE,
    PEER_ENDPOINT,
    PREFIX_MATCH,
    TOKENIZED_PROMPT,
    TOPOLOGY,
    UNCACHED_REQUEST_TOKENS,
    InFlightLoad,
    LatencyPrediction,
    MultiModalItem,
    MultiModalMatch,
    PrefixMatch,
    Prompt,
    TokenizedPrompt,
    Topology,
    endpoint_attribute,
)
from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import Scorer
from epp.plugins.scorers.active_request import ActiveRequestScorer
from epp.plugins.scorers.context_length_aware import ContextLengthAware
from epp.plugins.scorers.endpoint_attribute import EndpointAttributeScorer
from epp.plugins.scorers.header_label_affinity import HeaderLabelAffinityScorer
from epp.plugins.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from epp.plugins.scorers.latency import LatencyScorer
from epp.plugins.scorers.load_aware import LoadAwareScorer
from epp.plugins.scorers.lora_affinity import LoraAffinityScorer
from epp.plugins.scorers.mm_embeddings_cache import MmEmbeddingsCacheScorer
from epp.plugins.scorers.multicluster import (
    MulticlusterKvCacheUtilizationScorer,
    MulticlusterQueueScorer,
)
from epp.plugins.scorers.queue import QueueScorer
from epp.plugins.scorers.running_requests_size import RunningRequestsSizeScorer
from epp.plugins.scorers.token_load import TokenLoadScorer
from epp.plugins.scorers.topology_affinity import TopologyAffinityScorer
from epp.testing import built, endpoint_of, put, request_of

RANGE_LABEL = "llm-d.ai/context-length-range"
LOWER = {"type": "linear_lower_is_better"}
FIXED = {"type": "linear_higher_is_better", "normalization": {"fixedRange": {"max": 10.0}}}

SCORERS: dict[str, Scorer] = {
    "queue": built(QueueScorer),
    "running": built(RunningRequestsSizeScorer),
    "kv": built(KvCacheUtilizationScorer),
    "lora": built(LoraAffinityScorer),
    "load": built(LoadAwareScorer),
    "active": built(ActiveRequestScorer),
    "idle": built(ActiveRequestScorer, idle_threshold=2, max_busy_score=0.5),
    "tokens": built(TokenLoadScorer),
    "length": built(ContextLengthAware),
    "latency": built(LatencyScorer),
    "most": built(LatencyScorer, headroom_selection_strategy="most"),
    "mm": built(MmEmbeddingsCacheScorer),
    "header": built(HeaderLabelAffinityScorer, header_name="x-tier", label_key="tier"),
    "adaptive": built(EndpointAttributeScorer, attribute_key="a", algorithm=LOWER),
    "fixed": built(EndpointAttributeScorer, attribute_key="a", algorithm=FIXED),
    "topology": built(TopologyAffinityScorer),
    "clusters": built(MulticlusterQueueScorer),
    "pools": built(MulticlusterKvCacheUtilizationScorer),
}
HIGHEST = {"latency": 1.01, "most": 1.01}

count = st.integers(0, 10**7)
share = st.floats(0, 1)
number = st.floats(-1e9, 1e9)
models = st.frozensets(st.sampled_from(["m", "a", "b"]))
item = st.builds(MultiModalItem, st.sampled_from(["x", "y"]), st.integers(1, 500))
place = st.sampled_from(["", "p", "q"])


@dataclass(frozen=True)
class Known:
    """Everything that may be known of one endpoint."""

    metrics: EndpointMetrics
    labels: dict[str, str]
    lasting: dict[str, Any]
    candidate: dict[str, Any]


metrics = st.builds(
    EndpointMetrics,
    waiting_queue_size=count,
    running_requests_size=count,
    kv_cache_usage=share,
    active_models=models,
    waiting_models=models,
    max_active_models=st.integers(0, 4),
)
labels = st.fixed_dictionaries(
    {},
    optional={
        "tier": st.sampled_from(["gold", ""]),
        RANGE_LABEL: st.sampled_from(["0-0", "0-50", "7-100000", "bad", ""]),
    },
)
lasting = st.fixed_dictionaries(
    {},
    optional={
        IN_FLIGHT_LOAD.key(IN_FLIGHT_LOAD.default_producer): st.builds(InFlightLoad, count, count),
        TOPOLOGY.key(TOPOLOGY.default_producer): st.builds(
            Topology, hostname=place, rack=place, zone=place, region=place
        ),
        endpoint_attribute("a").key("core-metrics-extractor"): number,
        MULTICLUSTER_QUEUE_SIZE.key(""): count,
        MULTICLUSTER_KV_CACHE_UTILIZATION.key(""): share,
    },
)
candidate = st.fixed_dictionaries(
    {},
    optional={
        PREFIX_MATCH.name: st.builds(
            lambda total, part: PrefixMatch(int(total * part), total, 64), st.integers(0, 99), share
        ),
        UNCACHED_REQUEST_TOKENS.name: count,
        LATENCY_PREDICTION.name: st.builds(
            LatencyPrediction,
            ttft_headroom=number,
            tpot_headroom=number,
            dispatched_request_count=st.integers(0, 2),
        ),
        MULTI_MODAL_MATCH.name: st.builds(
            lambda items: MultiModalMatch(tuple(items[::2]), tuple(items)), st.lists(item)
        ),
    },
)
endpoints_known = st.lists(
    st.builds(Known, metrics, labels, lasting, candidate), min_size=1, max_size=8
)


def world(known: Sequence[Known], tokens: int = 60) -> tuple[InferenceRequest, list[Endpoint]]:
    request = request_of("m", headers={"x-tier": "gold"})
    endpoints = [endpoint_of(f"e{index}", labels=each.labels) for index, each in enumerate(known)]
    for endpoint, each in zip(endpoints, known, strict=True):
        endpoint.state.metrics = each.metrics
        endpoint.state.attributes.update(each.lasting)
    for data_type in (PREFIX_MATCH, UNCACHED_REQUEST_TOKENS, LATENCY_PREDICTION, MULTI_MODAL_MATCH):
        put(
            data_type,
            request,
            {
                endpoint: each.candidate[data_type.name]
                for endpoint, each in zip(endpoints, known, strict=True)
                if data_type.name in each.candidate
            },
        )
    prompt = TokenizedPrompt((Prompt(bytes(4 * tokens)),))
    Output(TOKENIZED_PROMPT, TOKENIZED_PROMPT.default_producer).put(request, prompt)
    Output(PEER_ENDPOINT, PEER_ENDPOINT.default_producer).put(request, endpoints[0])
    return request, endpoints


def assert_within_bounds(name: str, scores: Sequence[float]) -> None:
    unknown_is_unscored = name in ("clusters", "pools")
    for score in scores:
        is_fine = 0 <= score <= HIGHEST.get(name, 1) or (unknown_is_unscored and isnan(score))
        assert is_fine, (name, score)


@given(known=endpoints_known)
def test_each_endpoint_gets_one_score_within_bounds(known: list[Known]) -> None:
    request, endpoints = world(known)

    for name, scorer in SCORERS.items():
        scores = scorer.score(request, endpoints)

        assert len(scores) == len(endpoints), name
        assert_within_bounds(name, scores)


@given(known=endpoints_known, order=st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_makes_no_difference(
    known: list[Known], order: random.Random
) -> None:
    request, endpoints = world(known)
    shuffled = order.sample(endpoints, len(endpoints))

    for name, scorer in SCORERS.items():
        before = dict(zip(endpoints, scorer.score(request, endpoints), strict=True))
        after = dict(zip(shuffled, scorer.score(request, shuffled), strict=True))

        assert after == pytest.approx(before, nan_ok=True), name


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("size", [1, 1000])
def test_endpoints_of_which_nothing_is_known_are_equals(name: str, size: int) -> None:
    endpoints = [
        endpoint_of(address=f"10.0.0.1:{index}", updated_at=None) for index in range(1, size + 1)
    ]

    scores = SCORERS[name].score(request_of(), endpoints)

    assert len(scores) == size
    assert_within_bounds(name, scores)
    assert len({-1 if isnan(score) else score for score in scores}) == 1
