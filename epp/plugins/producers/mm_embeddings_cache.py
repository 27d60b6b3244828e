"""Guesses which endpoint has which image, video or sound encoded (scheduling §12.6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field
from xxhash import xxh3_128_hexdigest

from epp.framework.data_layer import EndpointListener
from epp.framework.data_types import (
    MULTI_MODAL_MATCH,
    TOKENIZED_PROMPT,
    MultiModalItem,
    MultiModalMatch,
    TokenizedPrompt,
)
from epp.framework.endpoint import Endpoint, EndpointId
from epp.framework.metric_specs import CounterSpec, HistogramSpec
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.request_control import DataProducer, PreRequest
from epp.framework.scheduling_results import SchedulingResult
from epp.plugins.producers.pseudo_tokens import MAX_MEDIA_PER_REQUEST
from epp.plugins.producers.removed_endpoints import RemovedEndpoints

DEFAULT_CACHE_MB = 4096
MB_PER_ITEM = 2
MAX_HASH_LENGTH = 128
MAX_DUMPED_ENDPOINTS = 100
MODALITIES = frozenset({"image", "video", "audio", "file"})
OTHER = "other"

CACHE_QUERIES = CounterSpec(
    name="llm_d_epp_encoder_cache_queries_total",
    help="[ALPHA] Items of requests that were looked up.",
    labels=("plugin_type", "plugin_name", "modality"),
)
CACHE_HITS = CounterSpec(
    name="llm_d_epp_encoder_cache_hits_total",
    help="[ALPHA] Items that an endpoint is believed to hold; once for each such endpoint.",
    labels=("plugin_type", "plugin_name", "modality", "pod"),
    expendable=("pod",),
)
CACHE_HIT_RATIO = HistogramSpec(
    name="llm_d_epp_encoder_cache_hit_ratio",
    help="[ALPHA] Share of a request's items that an endpoint holds; for each candidate.",
    labels=("plugin_type", "plugin_name"),
    bounds=tuple(tenth / 10 for tenth in range(11)),
)


class MmEmbeddingsCacheParameters(Parameters):
    """Parameters of `mm-embeddings-cache-producer`."""

    cache_size_in_mb_per_server: int = Field(
        DEFAULT_CACHE_MB,
        alias="cacheSizeInMBPerServer",
        description="MiB of an endpoint's encoder cache, at 2 MiB for each item; 0 or less: 4096.",
    )


class _Cache:
    """What one endpoint is believed to hold, least recently sent first."""

    __slots__ = ("items", "pod")

    def __init__(self, pod: str) -> None:
        self.pod = pod
        self.items: dict[str, None] = {}


class MmEmbeddingsCacheProducer(DataProducer, PreRequest, EndpointListener):
    """Tells which images, videos and sounds each endpoint was sent before."""

    type = "mm-embeddings-cache-producer"
    stability = Stability.BETA
    metrics = (CACHE_QUERIES, CACHE_HITS, CACHE_HIT_RATIO)

    def __init__(self, parameters: MmEmbeddingsCacheParameters, context: PluginContext) -> None:
        size = parameters.cache_size_in_mb_per_server
        self._capacity = max(1, (size if size > 0 else DEFAULT_CACHE_MB) // MB_PER_ITEM)
        self._tokens = context.consumes(TOKENIZED_PROMPT)
        self._matches = context.produces(MULTI_MODAL_MATCH)
        self._key = f"mm-items/{context.name}"
        self._caches: dict[EndpointId, _Cache] = {}
        self._removed = RemovedEndpoints()
        self._labels = (context.plugin_type, context.name)
        self._queries = context.metrics.counter(CACHE_QUERIES)
        self._hits = context.metrics.counter(CACHE_HITS)
        self._hit_ratio = context.metrics.histogram(CACHE_HIT_RATIO).labels(self._labels)

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Look the request's items up; nothing is written for a request without any."""
        prompt = self._tokens.of_request(request)
        items = self._items_of(prompt) if prompt is not None else ()
        if not items:
            return
        request.attributes[self._key] = items
        nothing = MultiModalMatch((), items)
        matches = {}
        for endpoint in endpoints:
            cache = self._caches.get(endpoint.id)
            held = cache.items if cache is not None else {}
            matched = tuple([item for item in items if item.hash in held]) if held else ()
            matches[endpoint] = MultiModalMatch(matched, items) if matched else nothing
        self._matches.put_all(request, matches)
        if not request.is_dry_run:
            self._count(items, matches.values())

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """Every endpoint that may serve the request is believed to hold its items.

        So are those of the encode stage, which the reference leaves out, though they encode them.
        """
        items: tuple[MultiModalItem, ...] = request.attributes.pop(self._key, ())
        if not items:
            return
        encode = result.stage("encode")
        encoders = encode.endpoints if encode is not None else ()
        for endpoint in (*result.endpoints, *encoders):
            if endpoint.id not in self._removed:
                self._learn(endpoint, items)

    def endpoint_added(self, endpoint: Endpoint) -> None:
        """It may be learnt of from now on."""
        self._removed.discard(endpoint.id)

    def endpoint_removed(self, endpoint: Endpoint) -> None:
        """Its cache is gone with it."""
        self._removed.add(endpoint.id)
        self._caches.pop(endpoint.id, None)

    def dump_state(self) -> object:
        """Number of items by endpoint, the fullest first; never what they are."""
        caches = sorted(self._caches.values(), key=lambda cache: (-len(cache.items), cache.pod))
        return {
            "totalPods": len(caches),
            "pods": [
                {"pod": cache.pod, "items": len(cache.items)}
                for cache in caches[:MAX_DUMPED_ENDPOINTS]
            ],
        }

    def _items_of(self, prompt: TokenizedPrompt) -> tuple[MultiModalItem, ...]:
        """Each item once, and not too many of them, since clients may name any number."""
        items: dict[str, MultiModalItem] = {}
        most = min(self._capacity, MAX_MEDIA_PER_REQUEST)
        for each in prompt.prompts:
            for feature in each.features:
                if feature.hash and len(items) < most:
                    key = _key_of(feature.hash)
                    items[key] = MultiModalItem(key, 1, feature.modality)
        return tuple(items.values())

    def _learn(self, endpoint: Endpoint, items: Sequence[MultiModalItem]) -> None:
        cache = self._caches.get(endpoint.id)
        if cache is None:
            pod = f"{endpoint.namespace}/{endpoint.name}"
            cache = self._caches[endpoint.id] = _Cache(pod)
        for item in items:
            cache.items.pop(item.hash, None)
            cache.items[item.hash] = None
        while len(cache.items) > self._capacity:
            del cache.items[next(iter(cache.items))]

    def _count(self, items: Sequence[MultiModalItem], matches: Iterable[MultiModalMatch]) -> None:
        for match in matches:
            self._hit_ratio.observe(len(match.matched) / len(items))
        for item in items:
            modality = item.modality if item.modality in MODALITIES else OTHER
            self._queries.labels((*self._labels, modality)).inc()
            for cache in self._caches.values():
                if item.hash in cache.items:
                    self._hits.labels((*self._labels, modality, cache.pod)).inc()


def _key_of(hash: str) -> str:
    """What is kept of an item's hash, which a client may have given, of any length."""
    return (
        hash
        if len(hash) <= MAX_HASH_LENGTH
        else xxh3_128_hexdigest(hash.encode("utf-8", "surrogatepass"))
    )
