"""Names an endpoint from which another one can fetch a cached prefix (scheduling §12.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field

from epp.framework.data_types import PREFIX_MATCH, PrefixMatch
from epp.framework.endpoint import Endpoint, EndpointId
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.request_control import DataProducer, PreRequest
from epp.framework.scheduling_results import SchedulingResult

SOURCE_HEADER = "x-kv-cache-source-host-port"
DEFAULT_PREFILL_PROFILE = "prefill"
CPU_TIER = "cpu"
MAX_ID_LENGTH = 1024

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_WORD = 1 << 32


class P2pSourceParameters(Parameters):
    """Parameters of `p2p-source-producer`."""

    prefix_match_info_producer_name: str = Field(
        "", description="Producer of the matches; empty: the one there is."
    )
    min_cached_token_delta: int = Field(
        1, ge=1, description="Tokens the source must hold beyond the endpoint that computes."
    )
    prefill_profile_name: str = Field(
        DEFAULT_PREFILL_PROFILE,
        description="Profile whose endpoint computes the prompt, if it picked one.",
    )


class _Source(NamedTuple):
    endpoint: EndpointId
    address: str
    tokens: int


class P2pSourceProducer(DataProducer, PreRequest):
    """Tells the computing endpoint in a header who holds more of the prompt than it does."""

    type = "p2p-source-producer"
    stability = Stability.ALPHA

    def __init__(self, parameters: P2pSourceParameters, context: PluginContext) -> None:
        self._matches = context.consumes(
            PREFIX_MATCH, producer=parameters.prefix_match_info_producer_name or None
        )
        self._min_delta = parameters.min_cached_token_delta
        self._prefill = parameters.prefill_profile_name or DEFAULT_PREFILL_PROFILE
        self._key = f"p2p-source/{context.name}"

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Choose among the endpoints that hold within a block of the most, idle ones rather."""
        matches = self._matches.values(request, endpoints)
        holders = [
            (endpoint, tokens, match.block_size_tokens)
            for endpoint, match in zip(endpoints, matches, strict=True)
            if match is not None and (tokens := _servable_tokens(match)) > 0
        ]
        if not holders:
            return
        most = max(tokens for _, tokens, _ in holders)
        near = [
            (endpoint, tokens, 1 / (1 + endpoint.metrics.waiting_queue_size))
            for endpoint, tokens, block_tokens in holders
            if tokens + block_tokens >= most
        ]
        position = _fnv1a32(request.id) / _WORD * sum(weight for *_, weight in near)
        endpoint, tokens, _ = near[-1]
        for candidate, held, weight in near:
            if position < weight:
                endpoint, tokens = candidate, held
                break
            position -= weight
        request.attributes[self._key] = _Source(endpoint.id, endpoint.address, tokens)

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """Set the header, or remove what a client has put there."""
        source: _Source | None = request.attributes.pop(self._key, None)
        if source is not None and self._is_worth_it(source, request, result):
            request.headers.set(SOURCE_HEADER, source.address)
        elif SOURCE_HEADER in request.headers:
            request.headers.remove(SOURCE_HEADER)

    def _is_worth_it(
        self, source: _Source, request: InferenceRequest, result: SchedulingResult
    ) -> bool:
        stage = result.profiles.get(self._prefill) or result.profiles[result.primary]
        computing = stage.picked
        if computing.id == source.endpoint:
            return False
        match = self._matches.of(request, computing)
        held = match.cached_tokens if match is not None else 0
        return source.tokens - held >= self._min_delta


def _servable_tokens(match: PrefixMatch) -> int:
    """Others can fetch from the CPU tier only, where tiers are known."""
    if match.cached_blocks_by_tier is not None:
        return match.cached_blocks_by_tier.get(CPU_TIER, 0) * match.block_size_tokens
    return match.cached_tokens


def _fnv1a32(text: str) -> int:
    digest = _FNV_OFFSET
    for byte in text[:MAX_ID_LENGTH].encode("utf-8", "surrogatepass"):
        digest = (digest ^ byte) * _FNV_PRIME % _WORD
    return digest
