"""The inference engine: who runs, who waits, how long things take, and what was counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from epp.simulator.adapters import AdapterHistory
from epp.simulator.clock import Clock
from epp.simulator.counters import Counters
from epp.simulator.prefix_cache import Lease, PrefixCache, block_hashes
from epp.simulator.settings import SimulatorSettings
from epp.simulator.text import TOKEN_BYTES, Output, token_count


class QueueFull(Exception):
    """As many requests wait as may wait."""


class Generation:
    """One sequence, from the queue to its last token. Leaving the `with` block gives it up."""

    def __init__(self, engine: Engine, prompt: bytes, adapter: str, output: Output) -> None:
        self.prompt_tokens = token_count(prompt)
        self.cached_tokens = 0
        """Known once the first token is there."""
        self.emitted = 0
        self.adapter = adapter
        self.output = output
        self.prompt = prompt
        self.hashes: Sequence[bytes] = ()
        self.lease: Lease | None = None
        self.placed = asyncio.Event()
        self.arrived_at = 0.0
        self.due_at = 0.0
        self._engine = engine
        self._prefilled = False

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.leave(self)

    async def next_piece(self) -> str | None:
        """The next token, when its time has come; None after the last one."""
        if not self._prefilled:
            await self._engine.prefill(self)
            self._prefilled = True
        elif self.emitted < len(self.output.pieces):
            await self._engine.decode(self)
        if self.is_complete:
            self._engine.leave(self)
            return None
        piece = self.output.pieces[self.emitted]
        self.emitted += 1
        self._engine.count_piece(self)
        return piece

    async def text(self) -> str:
        """All of the answer, when the last token's time has come."""
        pieces = []
        while (piece := await self.next_piece()) is not None:
            pieces.append(piece)
        return "".join(pieces)

    @property
    def is_complete(self) -> bool:
        """Whether the last token was handed out."""
        return self._prefilled and self.emitted == len(self.output.pieces)


class Engine:
    """Runs sequences in the order they came, as far as slots, cache and adapters allow."""

    def __init__(self, settings: SimulatorSettings, clock: Clock) -> None:
        self.counters = Counters()
        self.adapters = AdapterHistory()
        self.cache = PrefixCache(settings.kv_cache_size)
        self._settings = settings
        self._clock = clock
        self._waiting: dict[Generation, None] = {}
        self._running: dict[Generation, None] = {}
        self._block_bytes = settings.block_size * TOKEN_BYTES
        self._record_adapters()

    @property
    def running(self) -> int:
        """How many sequences have a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many sequences wait for one."""
        return len(self._waiting)

    def enqueue(self, prompt: bytes, adapter: str, output: Output) -> Generation:
        """Take a request in, to be used in a `with` block; raises `QueueFull`."""
        generation = Generation(self, prompt, adapter, output)
        generation.arrived_at = self._clock.now()
        if self._settings.enable_prefix_caching:
            generation.hashes = block_hashes(
                adapter.encode(), prompt, self._block_bytes, self._settings.kv_cache_size
            )
        self._waiting[generation] = None
        self._place_waiting()
        if not generation.placed.is_set():
            if len(self._waiting) > self._settings.max_waiting_queue_length:
                del self._waiting[generation]
                raise QueueFull
            self._record_adapters()
        return generation

    def leave(self, generation: Generation) -> None:
        """End a sequence wherever it is; harmless when it has ended."""
        if generation in self._waiting:
            del self._waiting[generation]
        elif generation in self._running:
            del self._running[generation]
            self._give_back(generation)
        else:
            return
        reason = generation.output.finish_reason if generation.is_complete else "abort"
        self.counters.finished[reason] += 1
        self._place_waiting()
        self._record_adapters()

    async def prefill(self, generation: Generation) -> None:
        """Wait for a slot and for the prompt to be computed."""
        await generation.placed.wait()
        uncached = generation.prompt_tokens - generation.cached_tokens
        settings = self._settings
        await self._spend(
            generation, settings.time_to_first_token + uncached * settings.prefill_time_per_token
        )
        self.counters.prompt_tokens += generation.prompt_tokens
        self.counters.observe_ttft(self._clock.now() - generation.arrived_at)

    async def decode(self, generation: Generation) -> None:
        """Wait for one more token."""
        await self._spend(generation, self._settings.inter_token_latency)

    def count_piece(self, generation: Generation) -> None:
        """Note that a token was handed out; the last one ends the sequence."""
        self.counters.generation_tokens += 1
        if generation.is_complete:
            self.leave(generation)
        elif generation.lease is not None:
            self.cache.fill(generation.lease, self._own_blocks(generation, generation.emitted))

    async def _spend(self, generation: Generation, seconds: float) -> None:
        # Counted from when the last step should have ended, so that late timers don't add up.
        slots = self._settings.max_num_seqs
        load = (len(self._running) - 1) / (slots - 1) if slots > 1 else 0.0
        factor = 1 + (self._settings.time_factor_under_load - 1) * load
        generation.due_at += seconds * factor
        await self._clock.sleep(max(0.0, generation.due_at - self._clock.now()))

    def _place_waiting(self) -> None:
        if len(self._running) >= self._settings.max_num_seqs:
            return
        for generation in list(self._waiting):
            if len(self._running) >= self._settings.max_num_seqs:
                return
            if not self._may_run(generation.adapter):
                continue  # as in vLLM, later requests pass one that waits for its adapter
            own_blocks = self._own_blocks(generation, len(generation.output.pieces))
            if not self.cache.fits(generation.hashes, own_blocks):
                return
            self._place(generation, own_blocks)

    def _place(self, generation: Generation, own_blocks: int) -> None:
        del self._waiting[generation]
        self._running[generation] = None
        block_size = self._settings.block_size
        # The last token of a prompt is always computed: its result is the first token of output.
        cacheable = (generation.prompt_tokens - 1) // block_size
        matching = self.cache.matching_blocks(generation.hashes[: max(0, cacheable)])
        generation.cached_tokens = matching * block_size
        generation.lease = self.cache.lease(generation.hashes, own_blocks)
        self.cache.fill(generation.lease, self._own_blocks(generation, 0))
        self.counters.prefix_cache_queries += generation.prompt_tokens
        self.counters.prefix_cache_hits += generation.cached_tokens
        generation.due_at = self._clock.now()
        generation.placed.set()
        self._record_adapters()

    def _give_back(self, generation: Generation) -> None:
        lease = generation.lease
        if lease is None:
            return
        self.cache.release(lease, self._computed_blocks(generation))
        generation.lease = None

    def _computed_blocks(self, generation: Generation) -> list[bytes]:
        if not self._settings.enable_prefix_caching:
            return []
        hashes = generation.hashes
        room = self._settings.kv_cache_size - len(hashes)
        start = hashes[-1] if hashes else generation.adapter.encode()
        tail = generation.prompt[len(hashes) * self._block_bytes :]
        text = "".join(generation.output.pieces[: generation.emitted])
        return block_hashes(start, tail + text.encode(), self._block_bytes, room)

    def _own_blocks(self, generation: Generation, output_tokens: int) -> int:
        size = self._settings.block_size
        tokens = generation.prompt_tokens + output_tokens - len(generation.hashes) * size
        return max(0, -(-tokens // size))

    def _may_run(self, adapter: str) -> bool:
        if not adapter:
            return True
        loaded = {generation.adapter for generation in self._running} - {""}
        return adapter in loaded or len(loaded) < self._settings.max_loras

    def _record_adapters(self) -> None:
        if self._settings.lora_modules:
            self.adapters.record(
                (generation.adapter for generation in self._running if generation.adapter),
                (generation.adapter for generation in self._waiting if generation.adapter),
                self._clock.unix_time(),
            )
