"""Keeps requests of a burst that share a prompt together, before any cache is warm (§12.8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from epp.framework.data_types import PREFIX_MATCH, TOKENIZED_PROMPT, PrefixMatch
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest
from epp.framework.request_control import DataProducer
from epp.plugins.producers.block_hashes import block_chains
from epp.plugins.producers.burst_placement import BurstRequest, PlacementRules, place

UNLIMITED = -1
DEFAULT_MAX_BLOCKS = 2048
MARGIN_SECONDS = 0.3


class BalanceBy(StrEnum):
    """What replicas get even shares of."""

    REQUESTS = "requests"
    TOKENS = "tokens"


class BurstPrefixCacheParameters(Parameters):
    """Parameters of `burst-prefix-cache-producer`."""

    window_duration_ms: int = Field(
        100, ge=1, le=10_000, description="Time that requests wait for others, in milliseconds."
    )
    max_per_replica: int = Field(
        UNLIMITED, description="Most requests with one prompt on a replica; -1: no limit."
    )
    block_size_tokens: int = Field(64, gt=0, description="Tokens of a block.")
    max_prefix_tokens_to_match: int = Field(
        0, ge=0, description="Leading tokens of a request to look at; 0: 2048 blocks."
    )
    min_colocate_blocks: int = Field(
        0, ge=0, description="Leading blocks that prompts must share to be kept together; 0: all."
    )
    max_batch_size: int = Field(
        1000, description="Most requests that wait at a time, others get no match; -1: no limit."
    )
    balance_by: BalanceBy = Field(
        BalanceBy.REQUESTS, strict=False, description="What is shared evenly: requests or tokens."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, value in (
            ("maxPerReplica", self.max_per_replica),
            ("maxBatchSize", self.max_batch_size),
        ):
            if value != UNLIMITED and value < 1:
                raise ValueError(f"{name} must be -1 or at least 1, is {value}")
        if 0 < self.max_prefix_tokens_to_match < self.block_size_tokens:
            raise ValueError("maxPrefixTokensToMatch must be 0 or at least blockSizeTokens")
        return self


class _Batch:
    """Requests that wait for the end of one window."""

    __slots__ = ("requests", "sealed", "timer")

    def __init__(self) -> None:
        self.requests: dict[BurstRequest, None] = {}
        self.sealed = asyncio.Event()
        self.timer: asyncio.TimerHandle | None = None


class BurstPrefixCacheProducer(DataProducer):
    """Collects requests for a moment and tells those that share a prompt to go the same way."""

    type = "burst-prefix-cache-producer"
    stability = Stability.ALPHA

    def __init__(self, parameters: BurstPrefixCacheParameters, context: PluginContext) -> None:
        self._parameters = parameters
        self._tokens = context.consumes(TOKENIZED_PROMPT)
        self._matches = context.produces(PREFIX_MATCH)
        self._window = parameters.window_duration_ms / 1000
        self.timeout_seconds = self._window + MARGIN_SECONDS
        limit = parameters.max_per_replica
        self._rules = PlacementRules(
            max_per_replica=None if limit == UNLIMITED else limit,
            min_colocate_blocks=parameters.min_colocate_blocks,
            by_tokens=parameters.balance_by is BalanceBy.TOKENS,
        )
        tokens = parameters.max_prefix_tokens_to_match
        self._max_blocks = tokens // parameters.block_size_tokens or DEFAULT_MAX_BLOCKS
        self._batch: _Batch | None = None

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Wait for the window to end; then all of the prompt matches on the chosen endpoint."""
        waiting = BurstRequest(self._chains(request), endpoints)
        if request.is_dry_run:
            place((waiting,), self._rules)  # it must not take a share of the others' window
        else:
            await self._wait(waiting)
        total = sum(map(len, waiting.chains))
        block_tokens = self._parameters.block_size_tokens
        values = dict.fromkeys(endpoints, PrefixMatch(0, total, block_tokens))
        target = waiting.target
        if target is not None:
            match = PrefixMatch(total, total, block_tokens)
            values.update({each: match for each in endpoints if each.id == target.id})
        self._matches.put_all(request, values)

    def dump_state(self) -> object:
        """How many requests wait for the window to end."""
        return {"waiting": len(self._batch.requests) if self._batch is not None else 0}

    def _chains(self, request: InferenceRequest) -> list[list[int]]:
        prompt = self._tokens.of_request(request)
        if prompt is None:
            return []
        return block_chains(
            request.target_model,
            prompt.cache_salt,
            prompt.prompts,
            block_tokens=self._parameters.block_size_tokens,
            max_blocks=self._max_blocks,
        )

    async def _wait(self, waiting: BurstRequest) -> None:
        batch = self._batch
        if batch is None:
            batch = self._batch = _Batch()
            batch.timer = asyncio.get_running_loop().call_later(self._window, self._seal, batch)
        if len(batch.requests) == self._parameters.max_batch_size:
            return
        batch.requests[waiting] = None
        try:
            await batch.sealed.wait()
        except asyncio.CancelledError:
            self._leave(batch, waiting)
            raise

    def _leave(self, batch: _Batch, waiting: BurstRequest) -> None:
        """A client that has gone takes no share; a window that nobody waits for ends."""
        batch.requests.pop(waiting, None)
        if not batch.requests and batch is self._batch:
            self._batch = None
            if batch.timer is not None:
                batch.timer.cancel()

    def _seal(self, batch: _Batch) -> None:
        self._batch = None
        try:
            place(tuple(batch.requests), self._rules)
        finally:
            batch.sealed.set()
