"""Guesses from the requests that were sent where which prefixes are cached (scheduling §12.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from pydantic import Field, model_validator

from epp.framework.data_layer import EndpointListener
from epp.framework.data_types import PREFIX_MATCH, TOKENIZED_PROMPT, PrefixMatch
from epp.framework.endpoint import Endpoint, EndpointId
from epp.framework.metric_specs import GaugeSpec, HistogramSpec, Twin
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.request_control import DataProducer, PreRequest, ResponseHeader
from epp.framework.scheduling_results import SchedulingResult
from epp.plugins.producers.block_hashes import NO_LIMIT, block_chains
from epp.plugins.producers.block_runs import packed
from epp.plugins.producers.prefix_index import PrefixIndex

DEFAULT_BLOCK_TOKENS = 16
MIN_BLOCK_TOKENS = 64
DEFAULT_CAPACITY = 31250
BYTES_PER_TOKEN = 4
MAX_DUMPED_ENDPOINTS = 100

_PLUGIN = ("plugin_name", "plugin_type")
INDEXER_SIZE = GaugeSpec(
    name="llm_d_epp_prefix_indexer_size",
    help="[ALPHA] Blocks that endpoints are believed to hold, summed over all endpoints.",
    labels=_PLUGIN,
    twin=Twin(name="inference_extension_prefix_indexer_size"),
)
INDEXER_HIT_RATIO = HistogramSpec(
    name="llm_d_epp_prefix_indexer_hit_ratio",
    help="[ALPHA] Share of a prompt that the endpoint with the longest match holds.",
    labels=_PLUGIN,
    bounds=tuple(tenth / 10 for tenth in range(11)),
    twin=Twin(name="inference_extension_prefix_indexer_hit_ratio"),
)
INDEXER_HIT_BYTES = HistogramSpec(
    name="llm_d_epp_prefix_indexer_hit_bytes",
    help="[ALPHA] Length of the longest match, at four bytes per token.",
    labels=_PLUGIN,
    bounds=(0.0, *(float(1 << power) for power in range(4, 17))),
    twin=Twin(name="inference_extension_prefix_indexer_hit_bytes"),
)
INDEX_ENTRIES = GaugeSpec(
    name="epp_prefix_index_entries",
    help="[ALPHA] Different blocks in the index, which its memory grows with; see maxIndexEntries.",
    labels=_PLUGIN,
)


class ApproxPrefixCacheParameters(Parameters):
    """Parameters of `approx-prefix-cache-producer`."""

    replaced: ClassVar = {
        "blockSize": "blockSizeTokens",
        "maxPrefixBlocksToMatch": "maxPrefixTokensToMatch",
    }
    auto_tune: bool = Field(
        True, description="Take block size and capacity from the metrics of endpoints, if known."
    )
    block_size_tokens: int = Field(
        DEFAULT_BLOCK_TOKENS,
        description="Tokens of a block where endpoints do not tell; less than 64 is 64.",
    )
    block_size: int = Field(
        0, description="Deprecated: blockSizeTokens, used while that has its default."
    )
    max_prefix_tokens_to_match: int = Field(
        131072, ge=0, description="Leading tokens of a request to look at; 0: see the next."
    )
    max_prefix_blocks_to_match: int = Field(
        2048,
        ge=0,
        description="Deprecated: used while maxPrefixTokensToMatch is 0; both 0: whole prompts.",
    )
    lru_capacity_per_server: int = Field(
        DEFAULT_CAPACITY,
        description="Blocks an endpoint holds where it does not tell; 0 or less: 31250.",
    )
    max_index_entries: int = Field(
        1_000_000,
        ge=16_384,
        description="Most blocks the index remembers, counting four for each prompt or part of one"
        " that has fewer. In long prompts a block takes 9 bytes, in the shortest up to 45.",
    )

    @model_validator(mode="after")
    def _has_block_size(self) -> Self:
        if not self.auto_tune and self.configured_block_tokens <= 0:
            raise ValueError("blockSizeTokens must be > 0 when autoTune is false")
        return self

    @property
    def configured_block_tokens(self) -> int:
        """What blockSizeTokens and its deprecated name say together."""
        if self.block_size > 0 and self.block_size_tokens == DEFAULT_BLOCK_TOKENS:
            return self.block_size
        return self.block_size_tokens


class _Prompt:
    """What is to be learnt of a request once it is known who serves it."""

    __slots__ = ("chains", "first_pick")

    def __init__(self, chains: Sequence[bytes]) -> None:
        self.chains = chains
        self.first_pick: EndpointId | None = None


class ApproxPrefixCacheProducer(DataProducer, PreRequest, ResponseHeader, EndpointListener):
    """Tells how much of a prompt each endpoint has computed before, judging by past picks."""

    type = "approx-prefix-cache-producer"
    stability = Stability.BETA
    metrics = (INDEXER_SIZE, INDEXER_HIT_RATIO, INDEXER_HIT_BYTES, INDEX_ENTRIES)

    def __init__(self, parameters: ApproxPrefixCacheParameters, context: PluginContext) -> None:
        self._parameters = parameters
        self._tokens = context.consumes(TOKENIZED_PROMPT)
        self._matches = context.produces(PREFIX_MATCH)
        self._key = f"prompt-blocks/{context.name}"
        self._index = PrefixIndex(parameters.max_index_entries)
        labels = (context.name, context.plugin_type)
        self._size = context.metrics.gauge(INDEXER_SIZE).labels(labels)
        self._entries = context.metrics.gauge(INDEX_ENTRIES).labels(labels)
        self._hit_ratio = context.metrics.histogram(INDEXER_HIT_RATIO).labels(labels)
        self._hit_bytes = context.metrics.histogram(INDEXER_HIT_BYTES).labels(labels)

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Look the prompt up; nothing is written for a request without one."""
        prompt = self._tokens.of_request(request)
        if prompt is None:
            return
        block_tokens = self._block_tokens(endpoints)
        chains = block_chains(
            request.target_model,
            prompt.cache_salt,
            prompt.prompts,
            block_tokens=block_tokens,
            max_blocks=self._max_blocks(block_tokens),
        )
        total = sum(map(len, chains))
        prompt_chains = [packed(chain) for chain in chains]
        request.attributes[self._key] = _Prompt(prompt_chains)
        # One object for all that hold the same: most of 300 endpoints hold nothing.
        values = dict.fromkeys(endpoints, PrefixMatch(0, total, block_tokens))
        counts = self._index.match(prompt_chains, endpoints)
        if counts:
            match_of = {
                count: PrefixMatch(count, total, block_tokens) for count in set(counts.values())
            }
            values.update({endpoint: match_of[count] for endpoint, count in counts.items()})
        self._matches.put_all(request, values)
        if total and not request.is_dry_run:
            best = max(counts.values(), default=0)
            self._hit_ratio.observe(best / total)
            self._hit_bytes.observe(best * block_tokens * BYTES_PER_TOKEN)

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """Those who compute the prompt will hold it."""
        prompt: _Prompt | None = request.attributes.get(self._key)
        if prompt is None:
            return
        prompt.first_pick = result.endpoints[0].id
        for endpoint in result.learning_endpoints:
            self._learn(prompt, endpoint)

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """So does the one that served after the gateway's retries, if it is another one."""
        prompt: _Prompt | None = request.attributes.pop(self._key, None)
        if prompt is None or prompt.first_pick is None or endpoint is None:
            return
        if endpoint.id != prompt.first_pick:
            self._learn(prompt, endpoint)

    def endpoint_added(self, endpoint: Endpoint) -> None:
        """It may be learnt of from now on, even if one of its identity was removed before."""
        self._index.admit(endpoint.id)

    def endpoint_removed(self, endpoint: Endpoint) -> None:
        """Its cache is gone with it."""
        self._index.remove(endpoint.id)
        self._report()

    def shares(self) -> dict[str, float]:
        """By namespace and name, the share of all blocks that an endpoint is believed to hold."""
        sizes = self._index.sizes()
        total = sum(sizes.values()) or 1
        return {pod: blocks / total for pod, blocks in sizes.items()}

    def dump_state(self) -> object:
        """Blocks by endpoint, the fullest first; never what is in them."""
        sizes = sorted(self._index.sizes().items(), key=lambda item: (-item[1], item[0]))
        return {
            "entries": len(self._index),
            "maxIndexEntries": self._parameters.max_index_entries,
            "totalPods": len(sizes),
            "pods": [
                {"pod": pod, "blocks": blocks} for pod, blocks in sizes[:MAX_DUMPED_ENDPOINTS]
            ],
        }

    def _learn(self, prompt: _Prompt, endpoint: Endpoint) -> None:
        capacity = self._capacity(endpoint)
        for chain in prompt.chains:
            self._index.insert(endpoint, capacity, chain)
        self._report()

    def _report(self) -> None:
        self._size.set(self._index.size)
        self._entries.set(len(self._index))

    def _block_tokens(self, endpoints: Sequence[Endpoint]) -> int:
        tokens = self._parameters.configured_block_tokens
        if self._parameters.auto_tune:
            for endpoint in endpoints:
                if endpoint.state.metrics.cache_block_size > 0:
                    tokens = endpoint.state.metrics.cache_block_size
                    break
        return max(tokens, MIN_BLOCK_TOKENS)

    def _max_blocks(self, block_tokens: int) -> int:
        tokens = self._parameters.max_prefix_tokens_to_match
        if tokens:
            return tokens // block_tokens
        return self._parameters.max_prefix_blocks_to_match or NO_LIMIT

    def _capacity(self, endpoint: Endpoint) -> int:
        reported = endpoint.state.metrics.cache_num_blocks if self._parameters.auto_tune else 0
        if reported > 0:
            return reported
        configured = self._parameters.lru_capacity_per_server
        return configured if configured > 0 else DEFAULT_CAPACITY


class MulticlusterApproxPrefixCacheProducer(ApproxPrefixCacheProducer):
    """Tells how much of a prompt each cluster has computed before, judging by past picks."""

    type = "multicluster-approx-prefix-cache-producer"
    stability = Stability.ALPHA
