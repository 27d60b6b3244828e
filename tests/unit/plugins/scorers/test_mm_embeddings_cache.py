"""`mm-embeddings-cache-scorer`."""

from __future__ import annotations

from epp.framework.data_types import MULTI_MODAL_MATCH, MultiModalItem, MultiModalMatch
from epp.plugins.scorers.mm_embeddings_cache import MmEmbeddingsCacheScorer
from epp.testing import FakeContext, built, endpoint_of, put, request_of

SMALL = MultiModalItem("a", 100, "image")
LARGE = MultiModalItem("b", 300, "video")


def test_the_score_is_the_cached_share_by_size() -> None:
    request = request_of()
    none, some, all_of_it, unknown, nothing_asked = (endpoint_of(f"e{i}") for i in range(5))
    put(
        MULTI_MODAL_MATCH,
        request,
        {
            none: MultiModalMatch((), (SMALL, LARGE)),
            some: MultiModalMatch((LARGE,), (SMALL, LARGE)),
            all_of_it: MultiModalMatch((SMALL, LARGE), (SMALL, LARGE)),
            nothing_asked: MultiModalMatch((), ()),
        },
    )

    scores = built(MmEmbeddingsCacheScorer).score(
        request, [none, some, all_of_it, unknown, nothing_asked]
    )

    assert scores == [0, 0.75, 1, 0, 0]


def test_the_producer_can_be_named() -> None:
    context = FakeContext()
    request = request_of()
    endpoint = endpoint_of()
    put(MULTI_MODAL_MATCH, request, {endpoint: MultiModalMatch((SMALL,), (SMALL,))}, "mine")

    scorer = built(MmEmbeddingsCacheScorer, context, producer_name="mine")

    assert scorer.score(request, [endpoint]) == [1]
    assert [made.producer for made in context.inputs] == ["mine"]
