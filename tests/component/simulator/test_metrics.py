from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from epp.simulator.server import RunningSimulator, serve
from epp.simulator.settings import SimulatorSettings
from tests.fakes.virtual_clock import VirtualClock

Until = Callable[[Callable[[], bool]], Awaitable[None]]

# Of vLLM's v1 engine with adapters, former and recent.
FAMILIES = {
    "vllm:num_requests_running": "gauge",
    "vllm:num_requests_waiting": "gauge",
    "vllm:gpu_cache_usage_perc": "gauge",
    "vllm:kv_cache_usage_perc": "gauge",
    "vllm:prefix_cache_queries": "counter",
    "vllm:prefix_cache_hits": "counter",
    "vllm:num_preemptions": "counter",
    "vllm:prompt_tokens": "counter",
    "vllm:generation_tokens": "counter",
    "vllm:request_success": "counter",
    "vllm:cache_config_info": "gauge",
    "vllm:time_to_first_token_seconds": "histogram",
    "vllm:lora_requests_info": "gauge",
    "python_gc_objects_collected": "counter",
    "python_info": "gauge",
    "process_resident_memory_bytes": "gauge",
    "process_start_time_seconds": "gauge",
    "process_cpu_seconds": "counter",
}


async def _page(http: aiohttp.ClientSession, simulator: RunningSimulator) -> dict[str, Metric]:
    async with http.get(f"{simulator.url}/metrics") as response:
        assert response.content_type == "text/plain"
        text = await response.text()
    assert "_created" not in text
    return {family.name: family for family in text_string_to_metric_families(text)}


def _values(page: dict[str, Metric]) -> dict[str, float]:
    labels = {"engine": "0", "model_name": "llama"}
    return {
        sample.name.removeprefix("vllm:"): sample.value
        for family in page.values()
        for sample in family.samples
        if sample.labels == labels
    }


async def _ask(http: aiohttp.ClientSession, simulator: RunningSimulator, model: str) -> None:
    body = {"model": model, "prompt": "p" * 640, "max_tokens": 32}
    async with http.post(f"{simulator.url}/v1/completions", json=body) as response:
        assert response.status == 200
        await response.read()


async def test_the_page_has_the_families_of_vllm(http: aiohttp.ClientSession) -> None:
    async with serve(SimulatorSettings(port=0, lora_modules=("sql",))) as simulator:
        page = await _page(http, simulator)

    assert FAMILIES.items() <= {name: family.type for name, family in page.items()}.items()
    config = page["vllm:cache_config_info"].samples[0].labels
    assert (config["block_size"], config["num_gpu_blocks"]) == ("16", "1024")


async def test_values_follow_the_load(http: aiohttp.ClientSession, until: Until) -> None:
    clock = VirtualClock()
    settings = SimulatorSettings(
        port=0,
        model="llama",
        lora_modules=("sql",),
        max_num_seqs=1,
        kv_cache_size=100,
        time_to_first_token=1.0,
        inter_token_latency=1.0,
    )
    async with serve(settings, clock) as simulator, asyncio.TaskGroup() as requests:
        requests.create_task(_ask(http, simulator, "llama"))
        await until(lambda: simulator.engine.running == 1 and clock.sleepers == 1)
        requests.create_task(_ask(http, simulator, "sql"))
        await until(lambda: simulator.engine.waiting == 1)

        busy = await _page(http, simulator)
        await clock.advance(32)
        await until(lambda: clock.sleepers == 1)
        await clock.advance(32)
        idle = await _page(http, simulator)

    busy_values = _values(busy)
    assert busy_values["num_requests_running"] == 1
    assert busy_values["num_requests_waiting"] == 1
    assert busy_values["kv_cache_usage_perc"] == busy_values["gpu_cache_usage_perc"] == 0.1
    adapters = max(busy["vllm:lora_requests_info"].samples, key=lambda sample: sample.value)
    assert adapters.labels == {
        "max_lora": "1",
        "running_lora_adapters": "",
        "waiting_lora_adapters": "sql",
    }
    values = _values(idle)
    assert values["num_requests_running"] == values["num_requests_waiting"] == 0
    assert values["kv_cache_usage_perc"] == 0
    assert values["prompt_tokens_total"] == values["prefix_cache_queries_total"] == 320
    assert values["prefix_cache_hits_total"] == 0
    assert values["generation_tokens_total"] == 64
    assert values["time_to_first_token_seconds_count"] == 2
    assert values["time_to_first_token_seconds_sum"] == 1 + 33
    finished = idle["vllm:request_success"].samples
    assert {sample.labels["finished_reason"]: sample.value for sample in finished} == {
        "stop": 0,
        "length": 2,
        "abort": 0,
    }


async def test_hits_are_counted(http: aiohttp.ClientSession) -> None:
    async with serve(SimulatorSettings(port=0, model="llama")) as simulator:
        for _ in range(2):
            await _ask(http, simulator, "llama")

        values = _values(await _page(http, simulator))

    assert values["prefix_cache_hits_total"] == 144
