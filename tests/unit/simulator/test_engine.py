from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from epp.simulator.engine import Engine, QueueFull
from epp.simulator.settings import SimulatorSettings
from epp.simulator.text import Output
from tests.fakes.virtual_clock import VirtualClock

BLOCK = 4 * 16
HELLO = Output([" sea"] * 4, "length")


class Run:
    """An engine with requests under way."""

    def __init__(self, settings: SimulatorSettings) -> None:
        self.clock = VirtualClock()
        self.engine = Engine(settings, self.clock)
        self.finished: list[str] = []
        self.cached: dict[str, int] = {}
        self.first_token_at: dict[str, float] = {}

    def start(
        self, name: str, prompt: bytes = b"prompt", adapter: str = "", output: Output = HELLO
    ) -> asyncio.Task[None]:
        return asyncio.create_task(self.request(name, prompt, adapter, output))

    async def request(
        self, name: str, prompt: bytes = b"prompt", adapter: str = "", output: Output = HELLO
    ) -> None:
        with self.engine.enqueue(prompt, adapter, output) as generation:
            await generation.next_piece()
            self.first_token_at[name] = self.clock.now()
            self.cached[name] = generation.cached_tokens
            await generation.text()
        self.finished.append(name)


def _settings(**changes: object) -> SimulatorSettings:
    return SimulatorSettings(**{"inter_token_latency": 1.0, **changes})  # type: ignore[arg-type]


async def _gather(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks)


async def test_a_second_request_with_the_same_prefix_computes_fewer_tokens_and_starts_sooner() -> (
    None
):
    run = Run(_settings(prefill_time_per_token=1.0, inter_token_latency=0.0))
    shared = b"s" * 4 * BLOCK

    first = run.start("first", shared + b"one!")
    await run.clock.advance(100)
    second = run.start("second", shared + b"two!")
    await run.clock.advance(100)
    await _gather([first, second])

    assert run.cached == {"first": 0, "second": 64}
    assert run.first_token_at == {"first": 65, "second": 101}
    assert run.engine.counters.prefix_cache_hits == 64
    assert run.engine.counters.prefix_cache_queries == 130


async def test_the_next_turn_of_a_conversation_finds_the_answer_in_the_cache() -> None:
    run = Run(_settings(inter_token_latency=0.0))
    answer = Output([" sea"] * 16)
    await run.request("first", b"p" * BLOCK, output=answer)

    await run.request("next", b"p" * BLOCK + b" sea" * 16 + b"more")

    assert run.cached["next"] == 32


async def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    run = Run(_settings(inter_token_latency=0.0))
    await run.request("first", b"p" * 2 * BLOCK)

    await run.request("again", b"p" * 2 * BLOCK)

    assert run.cached["again"] == 16


async def test_without_prefix_caching_nothing_is_cached() -> None:
    run = Run(_settings(inter_token_latency=0.0, enable_prefix_caching=False))
    await run.request("first", b"p" * 2 * BLOCK)

    await run.request("again", b"p" * 2 * BLOCK + b"tail")

    assert run.cached["again"] == 0


async def test_a_prefix_is_forgotten_when_others_needed_its_blocks() -> None:
    run = Run(_settings(inter_token_latency=0.0, kv_cache_size=4))
    await run.request("old", b"o" * 2 * BLOCK)
    await run.request("other", b"x" * 3 * BLOCK)

    await run.request("again", b"o" * 2 * BLOCK + b"tail")

    assert run.cached["again"] == 0


async def test_an_adapter_does_not_find_the_blocks_of_another() -> None:
    run = Run(_settings(inter_token_latency=0.0, lora_modules=("a", "b")))
    await run.request("a", b"p" * BLOCK, adapter="a")

    await run.request("b", b"p" * BLOCK + b"tail", adapter="b")
    await run.request("a again", b"p" * BLOCK + b"tail", adapter="a")

    assert (run.cached["b"], run.cached["a again"]) == (0, 16)


async def test_requests_beyond_the_slots_wait_and_start_in_order() -> None:
    run = Run(_settings(max_num_seqs=1))
    tasks = [run.start(name) for name in ("first", "second", "third")]

    await run.clock.advance(0)
    assert (run.engine.running, run.engine.waiting) == (1, 2)
    await run.clock.advance(100)

    await _gather(tasks)
    assert run.finished == ["first", "second", "third"]
    assert run.first_token_at == {"first": 0, "second": 3, "third": 6}
    assert (run.engine.running, run.engine.waiting) == (0, 0)


async def test_a_full_queue_turns_requests_away() -> None:
    engine = Engine(_settings(max_num_seqs=1, max_waiting_queue_length=1), VirtualClock())

    with engine.enqueue(b"runs", "", HELLO), engine.enqueue(b"waits", "", HELLO):
        with pytest.raises(QueueFull):
            engine.enqueue(b"is turned away", "", HELLO)

        assert (engine.running, engine.waiting) == (1, 1)


@pytest.mark.parametrize("cancelled", ["running", "waiting"])
async def test_a_cancelled_request_frees_its_place_at_once(cancelled: str) -> None:
    run = Run(_settings(max_num_seqs=1))
    tasks = {"running": run.start("running"), "waiting": run.start("waiting")}
    last = run.start("last")
    await run.clock.advance(1)

    tasks[cancelled].cancel()
    with suppress(asyncio.CancelledError):
        await tasks.pop(cancelled)

    assert (run.engine.running, run.engine.waiting) == (1, 1)
    assert run.engine.counters.finished["abort"] == 1
    await run.clock.advance(100)
    await _gather([*tasks.values(), last])
    assert run.engine.cache.usage == 0


async def test_the_slot_is_free_as_soon_as_the_last_token_is_out() -> None:
    engine = Engine(_settings(inter_token_latency=0.0), VirtualClock())

    with engine.enqueue(b"prompt", "", Output([" sea"])) as generation:
        assert engine.running == 1
        await generation.next_piece()

        assert engine.running == 0
    assert engine.counters.finished == {"stop": 1, "length": 0, "abort": 0}


async def test_adapters_beyond_max_loras_wait_while_others_pass() -> None:
    run = Run(_settings(max_loras=1, lora_modules=("a", "b")))
    tasks = [
        run.start("a", adapter="a"),
        run.start("b", adapter="b"),
        run.start("a too", adapter="a"),
        run.start("base"),
    ]

    await run.clock.advance(0)
    assert (run.engine.running, run.engine.waiting) == (3, 1)
    assert next(reversed(run.engine.adapters.series)) == ("a", "b")

    await run.clock.advance(100)
    await _gather(tasks)
    assert run.finished[-1] == "b"
    assert next(reversed(run.engine.adapters.series)) == ("", "")


async def test_a_request_waits_for_blocks_when_the_cache_is_in_use() -> None:
    run = Run(_settings(kv_cache_size=4))
    tasks = [run.start("large", b"l" * 3 * BLOCK), run.start("other", b"o" * 3 * BLOCK)]

    await run.clock.advance(0)
    assert (run.engine.running, run.engine.waiting) == (1, 1)
    await run.clock.advance(100)

    await _gather(tasks)
    assert run.finished == ["large", "other"]


async def test_a_prompt_larger_than_the_cache_is_served() -> None:
    run = Run(_settings(inter_token_latency=0.0, kv_cache_size=2))

    await run.request("huge", b"h" * 100 * BLOCK)

    assert run.finished == ["huge"]


async def test_usage_grows_with_the_answer() -> None:
    run = Run(_settings(kv_cache_size=10))
    task = run.start("long", b"p" * BLOCK, output=Output([" sea"] * 40))

    usages = []
    for _ in range(3):
        await run.clock.advance(0)
        usages.append(run.engine.cache.usage)
        await run.clock.advance(16)
    await run.clock.advance(100)
    await task

    assert usages == [0.2, 0.3, 0.4]


async def test_load_stretches_every_step_by_the_factor() -> None:
    run = Run(_settings(max_num_seqs=2, time_to_first_token=10.0, time_factor_under_load=3.0))
    alone = run.start("alone")
    await run.clock.advance(100)
    pair = [run.start("one"), run.start("two")]
    await run.clock.advance(100)
    await _gather([alone, *pair])

    assert run.first_token_at["alone"] == 10
    assert run.first_token_at["two"] == 130
