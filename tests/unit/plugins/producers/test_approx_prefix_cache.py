"""The approximate prefix cache, from a prompt to what is learnt of its request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from epp.framework.data import Input, Output
from epp.framework.data_types import (
    PREFIX_MATCH,
    TOKENIZED_PROMPT,
    PrefixMatch,
    Prompt,
    TokenizedPrompt,
)
from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.framework.headers import Headers
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.plugins.producers.approx_prefix_cache import (
    ApproxPrefixCacheParameters,
    ApproxPrefixCacheProducer,
    MulticlusterApproxPrefixCacheProducer,
)
from epp.testing import FakeContext, built, endpoint_of, request_of

E1, E2, E3 = POOL = tuple(endpoint_of(f"e{number}") for number in (1, 2, 3))
TOOLS = b"tools and system".ljust(512, b".")


def prompted(*texts: bytes, model: str = "m", salt: str = "") -> InferenceRequest:
    request = request_of(model)
    prompts = tuple(Prompt(text.ljust(-(-len(text) // 4) * 4, b"\0")) for text in texts)
    Output(TOKENIZED_PROMPT, "token-producer").put(request, TokenizedPrompt(prompts, salt))
    return request


def picked(*endpoints: Endpoint, prefill: Endpoint | None = None) -> SchedulingResult:
    profiles = {"decode": ProfileResult(endpoints=endpoints)}
    if prefill is not None:
        profiles["prefill"] = ProfileResult(endpoints=(prefill,))
    return SchedulingResult(primary="decode", profiles=profiles)


def matches(
    producer: ApproxPrefixCacheProducer,
    request: InferenceRequest,
    endpoints: Sequence[Endpoint] = POOL,
) -> list[PrefixMatch | None]:
    producer.produce(request, endpoints)
    found = Input(PREFIX_MATCH)
    found.bind(producer.name)
    return found.values(request, endpoints)


def counts(
    producer: ApproxPrefixCacheProducer,
    request: InferenceRequest,
    endpoints: Sequence[Endpoint] = POOL,
) -> list[tuple[int, int]]:
    return [
        (match.match_blocks, match.total_blocks)
        for match in matches(producer, request, endpoints)
        if match is not None
    ]


def serve(
    producer: ApproxPrefixCacheProducer,
    request: InferenceRequest,
    result: SchedulingResult,
    served: Endpoint | None = None,
    endpoints: Sequence[Endpoint] = POOL,
) -> None:
    producer.produce(request, endpoints)
    producer.pre_request(request, result)
    response = InferenceResponse(headers=Headers(), status=200, streaming=False, started=True)
    producer.response_header(request, response, served or result.endpoints[0])


def test_the_endpoint_that_computed_a_prompt_matches_all_of_it() -> None:
    producer = built(ApproxPrefixCacheProducer)

    serve(producer, prompted(TOOLS + b"hello"), picked(E2))

    assert matches(producer, prompted(TOOLS + b"hello")) == [
        PrefixMatch(0, 3, 64),
        PrefixMatch(3, 3, 64),
        PrefixMatch(0, 3, 64),
    ]


def test_prompts_with_the_same_beginning_match_as_far_as_it_goes() -> None:
    producer = built(ApproxPrefixCacheProducer)

    serve(producer, prompted(TOOLS + b"hello"), picked(E1))

    assert counts(producer, prompted(TOOLS + b"other text")) == [(2, 3), (0, 3), (0, 3)]
    changed = TOOLS.replace(b"tools", b"tolls")
    assert counts(producer, prompted(changed + b"hello")) == [(0, 3)] * 3


def test_models_adapters_and_tenants_share_nothing() -> None:
    producer = built(ApproxPrefixCacheProducer)

    serve(producer, prompted(TOOLS, model="m", salt="a"), picked(E1))

    assert counts(producer, prompted(TOOLS, model="adapter", salt="a"))[0] == (0, 2)
    assert counts(producer, prompted(TOOLS, model="m", salt="b"))[0] == (0, 2)
    assert counts(producer, prompted(TOOLS, model="m", salt="a"))[0] == (2, 2)


def test_the_endpoint_of_the_prefill_stage_learns_too() -> None:
    producer = built(ApproxPrefixCacheProducer)

    serve(producer, prompted(TOOLS), picked(E1, prefill=E3))

    assert counts(producer, prompted(TOOLS)) == [(2, 2), (0, 2), (2, 2)]


def test_the_endpoint_that_served_after_a_retry_learns_too() -> None:
    producer = built(ApproxPrefixCacheProducer)

    serve(producer, prompted(TOOLS), picked(E1, E2), served=E2)

    assert counts(producer, prompted(TOOLS)) == [(2, 2), (2, 2), (0, 2)]


def test_fallbacks_that_did_not_serve_learn_nothing() -> None:
    producer = built(ApproxPrefixCacheProducer)

    serve(producer, prompted(TOOLS), picked(E1, E2))

    assert counts(producer, prompted(TOOLS)) == [(2, 2), (0, 2), (0, 2)]


def test_a_request_without_prompt_leaves_no_trace() -> None:
    producer = built(ApproxPrefixCacheProducer)
    request = request_of()

    serve(producer, request, picked(E1))

    assert matches(producer, request) == [None, None, None]
    assert request.attributes == {}


def test_a_removed_endpoint_is_forgotten_and_late_requests_do_not_bring_it_back() -> None:
    producer = built(ApproxPrefixCacheProducer)
    serve(producer, prompted(TOOLS), picked(E1))
    late = prompted(TOOLS)
    producer.produce(late, POOL)

    producer.endpoint_removed(E1)
    producer.pre_request(late, picked(E1))

    assert counts(producer, prompted(TOOLS)) == [(0, 2)] * 3
    producer.endpoint_added(E1)
    assert counts(producer, prompted(TOOLS)) == [(0, 2)] * 3
    serve(producer, prompted(TOOLS), picked(E1))
    assert counts(producer, prompted(TOOLS))[0] == (2, 2)


def test_a_pod_that_gets_the_address_of_another_starts_with_nothing() -> None:
    producer = built(ApproxPrefixCacheProducer)
    serve(producer, prompted(TOOLS), picked(E1))

    heir = endpoint_of("heir", address=E1.address)

    assert counts(producer, prompted(TOOLS), [heir]) == [(0, 2)]


@pytest.mark.parametrize(
    ("parameters", "reported", "expected"),
    [
        pytest.param({}, 0, 64, id="floor"),
        pytest.param({}, 16, 64, id="small blocks of engines"),
        pytest.param({}, 256, 256, id="tuned"),
        pytest.param({"auto_tune": False}, 256, 64, id="not tuned"),
        pytest.param({"auto_tune": False, "block_size_tokens": 128}, 0, 128, id="configured"),
        pytest.param({"block_size": 96}, 0, 96, id="deprecated name"),
        pytest.param({"block_size": 96, "block_size_tokens": 80}, 0, 80, id="both names"),
    ],
)
def test_block_size_is_the_endpoints_else_configured_and_never_below_64(
    parameters: dict[str, Any], reported: int, expected: int
) -> None:
    producer = built(ApproxPrefixCacheProducer, **parameters)
    silent, telling = endpoint_of("e1"), endpoint_of("e2", cache_block_size=reported)

    found = matches(producer, prompted(TOOLS), [silent, telling])

    assert [match and match.block_size_tokens for match in found] == [expected, expected]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        pytest.param({}, 2048, id="default"),
        pytest.param({"max_prefix_tokens_to_match": 640}, 10, id="tokens"),
        pytest.param(
            {"max_prefix_tokens_to_match": 0, "max_prefix_blocks_to_match": 7}, 7, id="blocks"
        ),
        pytest.param(
            {"max_prefix_tokens_to_match": 0, "max_prefix_blocks_to_match": 0}, 2500, id="whole"
        ),
        pytest.param({"max_prefix_tokens_to_match": 63}, 0, id="less than a block"),
    ],
)
def test_only_the_beginning_of_a_request_is_looked_at(
    parameters: dict[str, Any], expected: int
) -> None:
    producer = built(ApproxPrefixCacheProducer, **parameters)

    [match] = matches(producer, prompted(bytes(2500 * 256)), [E1])

    assert match is not None
    assert match.total_blocks == expected


@pytest.mark.parametrize(
    ("parameters", "reported", "expected"),
    [
        pytest.param({}, 10, 10, id="reported"),
        pytest.param({"auto_tune": False, "lru_capacity_per_server": 20}, 10, 20, id="configured"),
        pytest.param({"lru_capacity_per_server": 20}, 0, 20, id="not reported"),
        pytest.param({"lru_capacity_per_server": 0}, 0, 31250, id="neither"),
    ],
)
def test_an_endpoint_is_believed_to_hold_less_than_twice_its_capacity(
    parameters: dict[str, Any], reported: int, expected: int
) -> None:
    producer = built(ApproxPrefixCacheProducer, **parameters)
    endpoint = endpoint_of("e1", cache_num_blocks=reported)

    for number in range(100):
        text = f"{number:03}".encode() * 86
        serve(producer, prompted(text), picked(endpoint), endpoints=[endpoint])

    blocks = producer.dump_state()["pods"][0]["blocks"]  # type: ignore[index] # of our own making
    assert min(expected, 200) <= blocks < 2 * expected


def test_the_capacity_of_the_first_insert_stays() -> None:
    producer = built(ApproxPrefixCacheProducer)
    endpoint = endpoint_of("e1", cache_num_blocks=10)
    serve(producer, prompted(TOOLS), picked(endpoint))

    endpoint.state.metrics = EndpointMetrics(cache_num_blocks=1000)
    serve(producer, prompted(bytes(100 * 256)), picked(endpoint))

    assert counts(producer, prompted(TOOLS), [endpoint]) == [(0, 2)]


def test_lookups_and_sizes_are_counted() -> None:
    context = FakeContext("approx-prefix-cache-producer", "mine")
    producer = built(ApproxPrefixCacheProducer, context)
    labels = ("mine", "approx-prefix-cache-producer")

    serve(producer, prompted(TOOLS), picked(E1, prefill=E2))
    serve(producer, prompted(TOOLS + b"more"), picked(E1))

    assert context.series("llm_d_epp_prefix_indexer_size")[labels].value == 5
    assert context.series("epp_prefix_index_entries")[labels].value == 3
    assert context.series("llm_d_epp_prefix_indexer_hit_ratio")[labels].sum == pytest.approx(2 / 3)
    assert context.series("llm_d_epp_prefix_indexer_hit_bytes")[labels].sum == 512
    producer.endpoint_removed(E1)
    assert context.series("llm_d_epp_prefix_indexer_size")[labels].value == 2


def test_earlier_names_of_the_series_have_no_labels() -> None:
    context = FakeContext("approx-prefix-cache-producer")
    producer = built(ApproxPrefixCacheProducer, context)

    serve(producer, prompted(TOOLS), picked(E1))

    twins = {
        family.spec.name: dict(family.items())
        for family in context.metrics.families(deprecated_twins=True)
        if family.spec.name.startswith("inference_extension_")
    }
    assert twins.keys() == {
        "inference_extension_prefix_indexer_size",
        "inference_extension_prefix_indexer_hit_ratio",
        "inference_extension_prefix_indexer_hit_bytes",
    }
    assert all(series.keys() == {()} for series in twins.values())


def test_the_dump_names_endpoints_and_sizes_but_no_content() -> None:
    producer = built(ApproxPrefixCacheProducer)
    serve(producer, prompted(TOOLS + b"more"), picked(E1))
    serve(producer, prompted(TOOLS), picked(E2))

    assert json.loads(json.dumps(producer.dump_state())) == {
        "entries": 3,
        "maxIndexEntries": 1_000_000,
        "totalPods": 2,
        "pods": [
            {"pod": "default/e1-rank-0", "blocks": 3},
            {"pod": "default/e2-rank-0", "blocks": 2},
        ],
    }


def test_no_block_size_without_tuning_is_refused() -> None:
    with pytest.raises(ValueError, match="blockSizeTokens must be > 0 when autoTune is false"):
        ApproxPrefixCacheParameters(auto_tune=False, block_size_tokens=0)


def test_the_variant_for_clusters_differs_in_its_type_only() -> None:
    producer = built(MulticlusterApproxPrefixCacheProducer)

    serve(producer, prompted(TOOLS), picked(E1))

    assert producer.type == "multicluster-approx-prefix-cache-producer"
    assert counts(producer, prompted(TOOLS)) == [(2, 2), (0, 2), (0, 2)]
