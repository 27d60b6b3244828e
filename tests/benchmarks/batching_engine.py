"""An inference engine that batches continuously, in virtual time.

Where `epp simulator` lets every sequence take its own time, this one works in steps, as vLLM does:
decodes first, then pieces of prompts in the order they came, all within one budget of tokens. So a
long prompt holds up those behind it, and a full batch slows everybody down.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from epp.framework.endpoint import EndpointMetrics
from epp.simulator.prefix_cache import Lease, PrefixCache

BLOCK_TOKENS = 16
BLOCKS = 6_144
STEP_TOKENS = 2_048
MOST_RUNNING = 48
ADAPTER_PLACES = 4
STEP_SECONDS = 0.022
DECODE_SECONDS = 0.00045
PREFILL_SECONDS = 0.00015
ADAPTER_LOAD_SECONDS = 0.45


class Timeline:
    """Time that jumps from one event to the next."""

    def __init__(self) -> None:
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def now(self) -> float:
        """Seconds since the start."""
        return self._now

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._events, (time, next(self._order), action))

    def run(self, until: float) -> None:
        """Let everything happen that is due before `until`."""
        while self._events and self._events[0][0] < until:
            self._now, _, action = heapq.heappop(self._events)
            action()


class Work:
    """What one request asks of an engine."""

    __slots__ = ("adapter", "all_hashes", "hashes", "output_tokens", "prompt_tokens")

    def __init__(
        self, prompt_tokens: int, output_tokens: int, adapter: str, all_hashes: Sequence[bytes]
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.adapter = adapter
        self.all_hashes = all_hashes
        """Of the blocks of prompt and answer."""
        self.hashes = all_hashes[: prompt_tokens // BLOCK_TOKENS]

    @property
    def own_blocks(self) -> int:
        """Blocks that nobody shares while it runs."""
        tokens = self.prompt_tokens % BLOCK_TOKENS + self.output_tokens
        return -(-tokens // BLOCK_TOKENS)


class _Sequence:
    __slots__ = ("emitted", "ended", "first_token", "lease", "left", "work")

    def __init__(
        self, work: Work, first_token: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self.work = work
        self.first_token = first_token
        self.ended = ended
        self.left = work.prompt_tokens
        """Tokens of the prompt that are to be computed."""
        self.emitted = 0
        self.lease = Lease((), 0)


class BatchingEngine:
    """Runs sequences step by step; `time_factor` is how many times longer its steps take."""

    def __init__(
        self, timeline: Timeline, *, time_factor: float = 1.0, has_adapters: bool = False
    ) -> None:
        self._time_factor = time_factor
        self._places = ADAPTER_PLACES if has_adapters else 0
        self.hit_tokens = 0
        self.prompt_tokens = 0
        self._timeline = timeline
        self._cache = PrefixCache(BLOCKS)
        self._waiting: list[_Sequence] = []
        self._running: list[_Sequence] = []
        self._loaded: OrderedDict[str, None] = OrderedDict()
        self._is_stepping = False

    def submit(
        self, work: Work, first_token: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        """Take a request in."""
        self._waiting.append(_Sequence(work, first_token, ended))
        if not self._is_stepping:
            self._step()

    def metrics(self) -> EndpointMetrics:
        """What its metrics page says now."""
        return EndpointMetrics(
            waiting_queue_size=len(self._waiting),
            running_requests_size=len(self._running),
            kv_cache_usage=self._cache.usage,
            active_models=frozenset(each.work.adapter for each in self._running) - {""},
            waiting_models=frozenset(each.work.adapter for each in self._waiting) - {""},
            max_active_models=self._places,
            cache_block_size=BLOCK_TOKENS,
            cache_num_blocks=BLOCKS,
        )

    def _cached_tokens(self, work: Work) -> int:
        # The last token of a prompt is always computed: its result is the first one of the answer.
        hashes = work.hashes[: (work.prompt_tokens - 1) // BLOCK_TOKENS]
        return self._cache.matching_blocks(hashes) * BLOCK_TOKENS

    def _step(self) -> None:
        loads = self._admit()
        self._is_stepping = bool(self._running)
        if not self._running:
            return
        producing = [each for each in self._running if not each.left]
        seconds = STEP_SECONDS + DECODE_SECONDS * len(producing)
        budget = STEP_TOKENS - len(producing)
        for sequence in self._running:
            if sequence.left and budget:
                piece = min(sequence.left, budget)
                sequence.left -= piece
                budget -= piece
                seconds += PREFILL_SECONDS * piece
                if not sequence.left:
                    producing.append(sequence)
        seconds = seconds * self._time_factor + loads * ADAPTER_LOAD_SECONDS
        self._timeline.at(self._timeline.now() + seconds, partial(self._stepped, producing))

    def _stepped(self, producing: Sequence[_Sequence]) -> None:
        for sequence in producing:
            sequence.emitted += 1
            if sequence.emitted == 1:
                sequence.first_token()
            if sequence.emitted >= sequence.work.output_tokens:
                self._running.remove(sequence)
                self._cache.release(sequence.lease, sequence.work.all_hashes)
                sequence.ended()
        self._step()

    def _admit(self) -> int:
        """Start those who may run; gives how many adapters had to be loaded."""
        loads = 0
        for sequence in list(self._waiting):
            work = sequence.work
            if len(self._running) >= MOST_RUNNING:
                break
            if not self._has_place(work.adapter):
                continue  # later requests pass one that waits for its adapter
            if not self._cache.fits(work.hashes, work.own_blocks):
                break
            self._waiting.remove(sequence)
            loads += self._load(work.adapter)
            cached = self._cached_tokens(work)
            sequence.left -= cached
            sequence.lease = self._cache.lease(work.hashes, work.own_blocks)
            self._running.append(sequence)
            self.hit_tokens += cached
            self.prompt_tokens += work.prompt_tokens
        return loads

    def _adapters_in_use(self) -> set[str]:
        return {each.work.adapter for each in self._running} - {""}

    def _has_place(self, adapter: str) -> bool:
        in_use = self._adapters_in_use()
        return not adapter or adapter in in_use or len(in_use) < self._places

    def _load(self, adapter: str) -> bool:
        if not adapter:
            return False
        is_new = adapter not in self._loaded
        if is_new and len(self._loaded) >= self._places:
            in_use = self._adapters_in_use()
            del self._loaded[next(each for each in self._loaded if each not in in_use)]
        self._loaded[adapter] = None
        self._loaded.move_to_end(adapter)
        return is_new
