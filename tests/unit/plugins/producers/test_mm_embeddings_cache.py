"""Which endpoints were sent which images, videos and sounds."""

from __future__ import annotations

import json

import pytest

from epp.framework.data import Input, Output
from epp.framework.data_types import (
    MULTI_MODAL_MATCH,
    TOKENIZED_PROMPT,
    MultiModalItem,
    MultiModalMatch,
    Prompt,
    TokenizedPrompt,
)
from epp.framework.endpoint import Endpoint
from epp.framework.parsed_request import MultiModalFeature
from epp.framework.request import InferenceRequest
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.plugins.producers.mm_embeddings_cache import (
    MmEmbeddingsCacheParameters,
    MmEmbeddingsCacheProducer,
)
from epp.plugins.producers.pseudo_tokens import MAX_MEDIA_PER_REQUEST
from epp.testing import FakeContext, built, endpoint_of, request_of

E1, E2, E3 = POOL = tuple(endpoint_of(f"e{number}") for number in (1, 2, 3))


def asking_for(*hashes: str, modality: str = "image") -> InferenceRequest:
    request = request_of()
    features = tuple(MultiModalFeature(modality, hash, 0, 1) for hash in hashes)
    Output(TOKENIZED_PROMPT, "token-producer").put(
        request, TokenizedPrompt((Prompt(b"", features[:1]), Prompt(b"", features[1:])))
    )
    return request


def matches(
    producer: MmEmbeddingsCacheProducer, request: InferenceRequest
) -> list[MultiModalMatch | None]:
    producer.produce(request, POOL)
    found = Input(MULTI_MODAL_MATCH)
    found.bind(producer.name)
    return found.values(request, POOL)


def matched(producer: MmEmbeddingsCacheProducer, *hashes: str) -> list[list[str]]:
    return [
        [item.hash for item in match.matched] if match is not None else []
        for match in matches(producer, asking_for(*hashes))
    ]


def send(producer: MmEmbeddingsCacheProducer, hashes: list[str], *endpoints: Endpoint) -> None:
    request = asking_for(*hashes)
    producer.produce(request, POOL)
    producer.pre_request(
        request,
        SchedulingResult(primary="p", profiles={"p": ProfileResult(endpoints=endpoints)}),
    )


def test_all_endpoints_that_may_serve_match_what_they_were_sent() -> None:
    producer = built(MmEmbeddingsCacheProducer)

    send(producer, ["a", "b"], E1, E2)

    assert matched(producer, "b", "c") == [["b"], ["b"], []]


def test_endpoints_of_the_encode_stage_match_what_they_encoded() -> None:
    producer, request = built(MmEmbeddingsCacheProducer), asking_for("a")
    producer.produce(request, POOL)

    producer.pre_request(
        request,
        SchedulingResult(
            primary="d",
            profiles={"d": ProfileResult(endpoints=(E1,)), "e": ProfileResult(endpoints=(E2, E3))},
            roles={"decode": "d", "encode": "e"},
        ),
    )

    assert matched(producer, "a") == [["a"], ["a"], ["a"]]


def test_each_item_counts_once_with_size_1() -> None:
    producer = built(MmEmbeddingsCacheProducer)

    [first, *_] = matches(producer, asking_for("a", "b", "a", ""))

    wanted = (MultiModalItem("a", 1, "image"), MultiModalItem("b", 1, "image"))
    assert first == MultiModalMatch((), wanted)


@pytest.mark.parametrize("request_", [request_of(), asking_for()], ids=["no prompt", "text only"])
def test_requests_without_media_leave_no_trace(request_: InferenceRequest) -> None:
    producer = built(MmEmbeddingsCacheProducer)

    assert matches(producer, request_) == [None, None, None]


def test_the_items_sent_longest_ago_are_forgotten() -> None:
    producer = built(MmEmbeddingsCacheProducer, cache_size_in_mb_per_server=4)

    for hash in ("a", "b", "a", "c"):
        send(producer, [hash], E1)

    assert matched(producer, "a")[0] == ["a"]
    assert matched(producer, "b")[0] == []
    assert matched(producer, "c")[0] == ["c"]


@pytest.mark.parametrize(("size", "capacity"), [(1, 1), (0, 2048), (-5, 2048), (100, 50)])
def test_an_endpoint_holds_an_item_for_each_2_mib(size: int, capacity: int) -> None:
    producer = built(MmEmbeddingsCacheProducer, cache_size_in_mb_per_server=size)

    for number in range(2100):
        send(producer, [f"item-{number}"], E1)

    assert producer.dump_state() == {
        "totalPods": 1,
        "pods": [{"pod": "default/e1-rank-0", "items": capacity}],
    }


def test_a_client_with_endless_hashes_costs_no_more_than_others() -> None:
    producer = built(MmEmbeddingsCacheProducer, cache_size_in_mb_per_server=8)
    endless = ["x" * 100_000, *(f"item-{number}" for number in range(10_000))]

    send(producer, endless, E1)
    [match, *_] = matches(producer, asking_for(*endless))

    assert match is not None
    assert len(match.requested) == len(match.matched) == 4
    assert all(len(item.hash) <= 128 for item in match.requested)


def test_no_more_items_of_a_request_are_told_apart_than_anybody_sends() -> None:
    producer = built(MmEmbeddingsCacheProducer, cache_size_in_mb_per_server=100_000)

    [match, *_] = matches(producer, asking_for(*map(str, range(2 * MAX_MEDIA_PER_REQUEST))))

    assert match is not None
    assert len(match.requested) == MAX_MEDIA_PER_REQUEST


def test_a_removed_endpoint_is_forgotten_and_late_requests_do_not_bring_it_back() -> None:
    producer = built(MmEmbeddingsCacheProducer)
    send(producer, ["a"], E1, E2)

    producer.endpoint_removed(E1)
    send(producer, ["a"], E1)

    assert matched(producer, "a") == [[], ["a"], []]
    producer.endpoint_added(E1)
    send(producer, ["a"], E1)
    assert matched(producer, "a") == [["a"], ["a"], []]


def test_lookups_are_counted_by_modality_and_pod() -> None:
    context = FakeContext("mm-embeddings-cache-producer", "mine")
    producer = built(MmEmbeddingsCacheProducer, context)
    mine = ("mm-embeddings-cache-producer", "mine")
    send(producer, ["a"], E1)

    matches(producer, asking_for("a", "b"))
    matches(producer, asking_for("c", modality="of a client's own making"))

    queries = context.series("llm_d_epp_encoder_cache_queries_total")
    assert {labels: series.value for labels, series in queries.items()} == {
        (*mine, "image"): 3,
        (*mine, "other"): 1,
    }
    hits = context.series("llm_d_epp_encoder_cache_hits_total")
    assert {labels: series.value for labels, series in hits.items()} == {
        (*mine, "image", "default/e1-rank-0"): 1
    }
    ratios = context.series("llm_d_epp_encoder_cache_hit_ratio")[mine]
    assert (sum(ratios.counts), ratios.sum) == (9, 0.5)


def test_a_dry_run_is_looked_up_and_not_counted() -> None:
    context = FakeContext("mm-embeddings-cache-producer", "mine")
    producer = built(MmEmbeddingsCacheProducer, context)
    send(producer, ["a"], E1)

    def counted() -> tuple[float, int]:
        queries = context.series("llm_d_epp_encoder_cache_queries_total").values()
        ratios = context.series("llm_d_epp_encoder_cache_hit_ratio").values()
        return sum(each.value for each in queries), sum(sum(each.counts) for each in ratios)

    before = counted()
    asked = asking_for("a")
    asked.is_dry_run = True

    [first, *_] = matches(producer, asked)

    assert first is not None
    assert len(first.matched) == 1
    assert counted() == before


def test_the_dump_is_json_without_hashes() -> None:
    producer = built(MmEmbeddingsCacheProducer)
    send(producer, ["secret"], E1)

    assert "secret" not in json.dumps(producer.dump_state())


def test_the_parameter_is_spelt_as_in_the_reference() -> None:
    found = MmEmbeddingsCacheParameters.model_validate({"cacheSizeInMBPerServer": 10})

    assert found.cache_size_in_mb_per_server == 10
