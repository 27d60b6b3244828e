"""The data that bundled plugins exchange, under the reference's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from epp.framework.data import DataType, Scope
from epp.framework.parsed_request import MultiModalFeature

CORE_METRICS_EXTRACTOR = "core-metrics-extractor"


class PrefixMatch(Struct, frozen=True):
    """How much of a request's prompt an endpoint is believed to hold. Counts of blocks."""

    match_blocks: int
    total_blocks: int
    block_size_tokens: int
    cached_blocks: int | None = None
    """Unweighted count; None: the same as `match_blocks`."""
    cached_blocks_by_tier: Mapping[str, int] | None = None

    @property
    def ratio(self) -> float:
        """Matched share of the prompt, 0 to 1."""
        return self.match_blocks / self.total_blocks if self.total_blocks else 0.0

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that need not be computed."""
        blocks = self.match_blocks if self.cached_blocks is None else self.cached_blocks
        return blocks * self.block_size_tokens


class InFlightLoad:
    """Requests and tokens that were sent to one endpoint and are not done. Live."""

    __slots__ = ("requests", "tokens")

    def __init__(self, requests: int = 0, tokens: int = 0) -> None:
        self.requests = requests
        self.tokens = tokens


class LatencyPrediction(Struct, frozen=True, kw_only=True):
    """Predicted latencies of a request on an endpoint, in milliseconds."""

    ttft_valid: bool = False
    tpot_valid: bool = False
    ttft_headroom: float = 0.0
    tpot_headroom: float = 0.0
    ttft: float = 0.0
    tpot: float = 0.0
    dispatched_request_count: int = 0


class MultiModalItem(Struct, frozen=True):
    """An image, video or sound of a request."""

    hash: str
    size: int = 1
    modality: str = ""


class MultiModalMatch(Struct, frozen=True):
    """Which items of a request an endpoint's encoder cache is believed to hold."""

    matched: tuple[MultiModalItem, ...]
    requested: tuple[MultiModalItem, ...]


class Prompt(Struct, frozen=True):
    """One prompt as token ids: little-endian uint32, four bytes each, padded to a whole token."""

    tokens: bytes | memoryview
    features: tuple[MultiModalFeature, ...] = ()
    omitted_tokens: int = 0
    """How many follow that are not kept: of prompts longer than models read."""

    @property
    def count(self) -> int:
        """Number of tokens."""
        return len(self.tokens) // 4 + self.omitted_tokens


class TokenizedPrompt(Struct, frozen=True):
    """All prompts of a request."""

    prompts: tuple[Prompt, ...]
    cache_salt: str = ""

    @property
    def count(self) -> int:
        """Number of tokens of all prompts."""
        return sum(prompt.count for prompt in self.prompts)


class Topology(Struct, frozen=True, kw_only=True):
    """Where an endpoint runs; empty: not known."""

    hostname: str = ""
    rack: str = ""
    zone: str = ""
    region: str = ""


class ServedModel(Struct, frozen=True, kw_only=True):
    """An entry of a model server's `/v1/models`."""

    id: str
    kind: str = ""
    """Its member `object`."""
    created: int = 0
    owned_by: str = ""
    parent: str = ""


def _core_metric(name: str) -> DataType[None]:
    # Declares the dependency only: the value is in `Endpoint.metrics`.
    return DataType(name=name, scope=Scope.ENDPOINT, default_producer=CORE_METRICS_EXTRACTOR)


WAITING_QUEUE_SIZE = _core_metric("WaitingQueueSize")
RUNNING_REQUESTS_SIZE = _core_metric("RunningRequestsSize")
KV_CACHE_USAGE_PERCENT = _core_metric("KVCacheUsagePercent")
ACTIVE_MODELS = _core_metric("ActiveModels")
WAITING_MODELS = _core_metric("WaitingModels")
CORE_METRICS = (
    WAITING_QUEUE_SIZE,
    RUNNING_REQUESTS_SIZE,
    KV_CACHE_USAGE_PERCENT,
    ACTIVE_MODELS,
    WAITING_MODELS,
)

PREFIX_MATCH: DataType[PrefixMatch] = DataType(
    name="PrefixCacheMatchInfoDataKey",
    scope=Scope.CANDIDATE,
    default_producer="approx-prefix-cache-producer",
    created_when_missing=True,
    value=PrefixMatch,
)
IN_FLIGHT_LOAD: DataType[InFlightLoad] = DataType(
    name="InFlightLoadDataKey",
    scope=Scope.ENDPOINT,
    default_producer="inflight-load-producer",
    created_when_missing=True,
    value=InFlightLoad,
)
# No default producer is created for it, as in the reference (L13).
UNCACHED_REQUEST_TOKENS: DataType[int] = DataType(
    name="UncachedRequestTokensDataKey",
    scope=Scope.CANDIDATE,
    default_producer="inflight-load-producer",
    value=int,
)
LATENCY_PREDICTION: DataType[LatencyPrediction] = DataType(
    name="LatencyPredictionInfoDataKey",
    scope=Scope.CANDIDATE,
    default_producer="predicted-latency-producer",
    value=LatencyPrediction,
)
TOKENIZED_PROMPT: DataType[TokenizedPrompt] = DataType(
    name="TokenizedPrompt",
    scope=Scope.REQUEST,
    default_producer="token-producer",
    created_when_missing=True,
    is_transient=True,
    value=TokenizedPrompt,
)
MULTI_MODAL_MATCH: DataType[MultiModalMatch] = DataType(
    name="MultiModalEncoderCacheMatchInfoKey",
    scope=Scope.CANDIDATE,
    default_producer="mm-embeddings-cache-producer",
    created_when_missing=True,
    value=MultiModalMatch,
)
SESSION_ID: DataType[str] = DataType(
    name="SessionIDDataKey",
    scope=Scope.REQUEST,
    default_producer="session-id-producer",
    created_when_missing=True,
    value=str,
)
AGENT_IDENTITY: DataType[str] = DataType(
    name="agent-identity", scope=Scope.REQUEST, default_producer="agent-identity", value=str
)
PEER_ENDPOINT: DataType[object] = DataType(
    name="peer-endpoint", scope=Scope.REQUEST, default_producer="disagg-profile-handler"
)
TOPOLOGY: DataType[Topology] = DataType(
    name="Topology",
    scope=Scope.ENDPOINT,
    default_producer="topology-extractor",
    value=Topology,
)
GPU_UTILIZATION: DataType[float] = DataType(
    name="GPUUtilization", scope=Scope.ENDPOINT, default_producer="dcgm-extractor", value=float
)
SERVED_MODELS: DataType[Sequence[ServedModel]] = DataType(
    name="/v1/models", scope=Scope.ENDPOINT, default_producer="models-data-extractor"
)


def endpoint_attribute(
    name: str, *, default_producer: str = CORE_METRICS_EXTRACTOR
) -> DataType[float]:
    """A number kept on endpoints under a name that a configuration chooses.

    Without a default producer it is whoever's: read under the key of an empty name.
    """
    return DataType(name=name, scope=Scope.ENDPOINT, default_producer=default_producer, value=float)


MULTICLUSTER_QUEUE_SIZE = endpoint_attribute(
    "llm-d.ai/multicluster-queue-size", default_producer=""
)
MULTICLUSTER_KV_CACHE_UTILIZATION = endpoint_attribute(
    "llm-d.ai/multicluster-kv-cache-utilization", default_producer=""
)
