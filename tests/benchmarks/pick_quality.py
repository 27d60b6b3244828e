"""What a pick is worth to clients; how to read it is in docs/performance.md.

    python -m tests.benchmarks.pick_quality --cells shared/0.9 lora/burst --seeds 1 2

The picker before a simulated fleet, in virtual time: the same figures on any machine. With
`--through-envoy` a smaller run in real time: Envoy, one picker and simulated model servers. The
same requests, at the same times, go to each configuration in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import geometric_mean

import httpx

from epp.support.event_loop import run_in_loop
from tests.benchmarks.simulated_fleet import CELLS, SECONDS, Outcome, pooled, run_picker
from tests.fakes.metrics.samples import sum_of
from tests.fakes.programs.processes import MODEL, PortSource, Simulator
from tests.fakes.programs.stack import Stack

SERVERS = 4
SHARED_PROMPTS = 24
SHARED_WORDS = 1_500
OWN_WORDS = 60
REQUESTS_PER_SECOND = 12.0
OUTPUT_TOKENS = 16
SIMULATOR_FLAGS = (
    "--max-num-seqs=8",
    "--prefill-time-per-token=0.25ms",
    "--inter-token-latency=5ms",
    "--time-to-first-token=10ms",
    # About half of the shared prompts: no server can hold them all.
    "--kv-cache-size=1600",
)
# Without scorers every total is the same, and equal totals take turns.
ROUND_ROBIN = """
schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}]}]
plugins: [{type: max-score-picker}]
"""
LORA_AFFINITY = """
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: lora-affinity-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: lora-affinity-scorer, weight: 2}
"""
EXPECTED_WORK = (Path(__file__).parents[2] / "config/examples/expected-work.yaml").read_text()
# What loading one costs these engines is 3,000 tokens of prompts.
DEAR_ADAPTERS = """
plugins:
- type: expected-work-scorer
  parameters: {adapterLoadTokens: 2000, adapterSlotTokens: 3000}
- type: max-score-picker
"""
DEFAULT = "default"
CONFIGURATIONS = {DEFAULT: "", "round robin": ROUND_ROBIN, "expected work": EXPECTED_WORK}
WITH_LORA = {
    **CONFIGURATIONS,
    "default + lora-affinity": LORA_AFFINITY,
    "expected work, adapters 2000 + 3000": DEAR_ADAPTERS,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=CELLS, metavar="CELL")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--through-envoy", action="store_true")
    arguments = parser.parse_args()
    if arguments.through_envoy:
        print_through_envoy(arguments.seconds, arguments.seeds[0])
    else:
        print_cells(arguments.cells, arguments.seeds, arguments.seconds)


def print_cells(cells: Sequence[str], seeds: Sequence[int], seconds: float) -> None:
    """A line for each cell, as soon as it is known, and one for all of those without adapters."""
    names = list(WITH_LORA)
    print(f"| cell | {DEFAULT}, mean s, p95 s, hits | {' | '.join(names[1:])} |")
    print("|---" * (len(names) + 1) + "|")
    ratios: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        configurations = WITH_LORA if cell.startswith("lora/") else CONFIGURATIONS
        outcomes = {
            name: pooled([run_picker(cell, text, seed, seconds=seconds) for seed in seeds])
            for name, text in configurations.items()
        }
        base = outcomes[DEFAULT]
        columns = [f"{base.mean:.2f}, {base.p95:.2f}, {base.hit_ratio:.0%}"]
        for name in names[1:]:
            if (outcome := outcomes.get(name)) is None:
                columns.append("")
                continue
            mean, p95 = outcome.mean / base.mean, outcome.p95 / base.p95
            columns.append(f"{mean:.2f}, {p95:.2f}, {outcome.hit_ratio:.0%}")
            if configurations is CONFIGURATIONS:
                ratios.setdefault(name, []).append((mean, p95))
        print(f"| {cell} | {' | '.join(columns)} |", flush=True)
    for name, pairs in ratios.items():
        mean, p95 = (geometric_mean(values) for values in zip(*pairs, strict=True))
        print(f"{name}, geometric mean without adapters: mean {mean:.2f}, p95 {p95:.2f}")


def print_through_envoy(seconds: float, seed: int) -> None:
    """One run of each configuration in real time."""
    outcomes = {
        name: run_configuration(text, seconds, seed) for name, text in CONFIGURATIONS.items()
    }
    base = outcomes[DEFAULT]
    print("| configuration | mean TTFT, ms | p95, ms | prefix-cache hits | failed |", end="")
    print(" mean, ratio | p95, ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, outcome in outcomes.items():
        print(
            f"| {name} | {outcome.mean * 1e3:.0f} | {outcome.p95 * 1e3:.0f} |"
            f" {outcome.hit_ratio:.0%} | {outcome.failed} |"
            f" {outcome.mean / base.mean:.2f} | {outcome.p95 / base.p95:.2f} |"
        )


def run_configuration(text: str, seconds: float, seed: int) -> Outcome:
    """One run on servers that have seen nothing yet."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as programs:
        simulators = [
            Simulator(f"simulator-{number}", Path(folder), SIMULATOR_FLAGS)
            for number in range(1, SERVERS + 1)
        ]
        for simulator in simulators:
            simulator.start()
            programs.callback(simulator.kill)
        addresses = [simulator.address() for simulator in simulators]
        flags = [f"--config-text={text}"] if text else []
        stack = Stack(Path(folder), PortSource(), addresses, fail_open=False, picker_flags=flags)
        with stack:
            ttft, failed = run_in_loop(drive(stack.url, seconds, seed))
        pages = [httpx.get(f"http://{address}/metrics").text for address in addresses]
    hits = sum(sum_of(page, "vllm:prefix_cache_hits_total") for page in pages)
    queries = sum(sum_of(page, "vllm:prefix_cache_queries_total") for page in pages)
    return Outcome(ttft_seconds=ttft, hit_ratio=hits / queries, failed=failed)


async def drive(url: str, seconds: float, seed: int) -> tuple[list[float], int]:
    """Times to first token of all requests that were answered, and how many were not."""
    limits = httpx.Limits(max_connections=None)
    tasks = []
    async with (
        httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client,
        asyncio.TaskGroup() as group,
    ):
        started = time.perf_counter()
        for at, prompt in arrivals(seconds, seed):
            await asyncio.sleep(max(0.0, started + at - time.perf_counter()))
            tasks.append(group.create_task(time_to_first_token(client, prompt)))
    times = [task.result() for task in tasks]
    answered = [each for each in times if each is not None]
    return answered, len(times) - len(answered)


def arrivals(seconds: float, seed: int) -> Iterator[tuple[float, str]]:
    """Poisson arrivals; a few of the shared prompts are much more popular than the rest."""
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(2_000)]
    shared = [" ".join(rng.choices(words, k=SHARED_WORDS)) for _ in range(SHARED_PROMPTS)]
    popularity = [1 / rank for rank in range(1, SHARED_PROMPTS + 1)]
    at = 0.0
    while (at := at + rng.expovariate(REQUESTS_PER_SECOND)) < seconds:
        (prompt,) = rng.choices(shared, popularity)
        yield at, f"{prompt} {' '.join(rng.choices(words, k=OWN_WORDS))}"


async def time_to_first_token(client: httpx.AsyncClient, prompt: str) -> float | None:
    """Seconds until the first event of a streamed answer; None if there was none."""
    body = {"model": MODEL, "prompt": prompt, "stream": True, "max_tokens": OUTPUT_TOKENS}
    started = time.perf_counter()
    async with client.stream("POST", "/v1/completions", json=body) as response:
        first = None
        async for _ in response.aiter_lines():
            first = first or time.perf_counter() - started
        return first if response.status_code == httpx.codes.OK else None


if __name__ == "__main__":
    main()
