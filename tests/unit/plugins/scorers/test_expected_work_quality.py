"""`expected-work-scorer` before a simulated fleet: what its picks are worth to clients."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest

from tests.benchmarks.batching_engine import BatchingEngine, Timeline
from tests.benchmarks.pick_workloads import Shared, arrivals
from tests.benchmarks.simulated_fleet import Outcome, run_picker

EXAMPLE = Path(__file__).parents[4] / "config/examples/expected-work.yaml"


@cache
def outcome(cell: str, configuration: str) -> Outcome:
    text = EXAMPLE.read_text() if configuration == "expected work" else ""
    return run_picker(cell, text, seed=3)


@pytest.mark.parametrize("cell", ["shared/burst", "unrelated/0.6", "lora/0.6"])
def test_first_tokens_come_sooner_than_by_the_default_configuration(cell: str) -> None:
    default, ours = outcome(cell, "default"), outcome(cell, "expected work")

    assert ours.failed == default.failed == 0
    assert len(ours.ttft_seconds) == len(default.ttft_seconds)
    assert ours.mean <= 0.9 * default.mean


def test_prefixes_stay_where_they_are_cached() -> None:
    cell = "shared/burst"

    assert outcome(cell, "expected work").hit_ratio >= outcome(cell, "default").hit_ratio - 0.04


def test_the_same_seed_gives_the_same_picks() -> None:
    again = run_picker("lora/0.6", "", seed=3)

    assert again.ttft_seconds == outcome("lora/0.6", "default").ttft_seconds


def test_a_simulated_engine_caches_prompts_and_computes_one_after_the_other() -> None:
    rng = random.Random(1)
    [arrival] = arrivals(Shared(rng), rng, rate=1.0, seconds=60.0, bursts=False)[:1]
    timeline = Timeline()
    engine = BatchingEngine(timeline)
    first: list[float] = []

    def ask() -> None:
        engine.submit(arrival.work, lambda: first.append(timeline.now()), lambda: None)

    for at in (0.0, 0.0, 100.0):
        timeline.at(at, ask)
    timeline.run(1000.0)

    cold, behind, cached = first
    assert cold <= behind
    assert cached - 100.0 < cold / 4
    assert engine.metrics().running_requests_size == 0
