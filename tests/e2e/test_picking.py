"""Where requests go, by what the model servers and the picker itself know of load."""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import fmean

import pytest

from tests.e2e.conftest import StartSimulators
from tests.fakes.programs.pool_client import PoolClient, different_prompts
from tests.fakes.programs.processes import MODEL, Simulator
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.stack import MakeStack, Stack
from tests.fakes.transport.raw_http import Http2Connection, connected

pytestmark = pytest.mark.e2e

ROUND = different_prompts(12)
"""Enough to meet every endpoint several times if none is preferred."""
BUSY = ("--max-num-seqs=1", "--inter-token-latency=1h")
"""A server that one request keeps busy, and that answers requests for one token at once."""
LEAST_ACTIVE = """
plugins: [{type: active-request-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: active-request-scorer}]}]
"""

WriteConfig = Callable[[str], str]


def addresses(simulators: list[Simulator]) -> set[str]:
    return {str(simulator.address()) for simulator in simulators}


def stack_of(make_stack: MakeStack, simulators: list[Simulator], *flags: str) -> Stack:
    """A picker that has heard of every simulator."""
    servers = [simulator.address() for simulator in simulators]
    stack = make_stack(servers=servers, fail_open=False, picker_flags=flags)
    for address in servers:
        stack.picker.wait_until_heard_of(address)
    return stack


def test_an_overloaded_endpoint_gets_nothing_while_others_are_free(
    make_stack: MakeStack, start_simulators: StartSimulators
) -> None:
    overloaded, *free = simulators = start_simulators(3, *BUSY)
    stack = stack_of(make_stack, simulators)

    with PoolClient(stack) as client:
        with overloaded.load(5):
            stack.picker.wait_until_known(overloaded.address(), running=1, waiting=4)
            during = client.servers_of(*ROUND)
        stack.picker.wait_until_known(overloaded.address(), running=0, waiting=0)
        after = client.servers_of(*different_prompts(30)[12:])

    assert set(during) == addresses(free)
    assert set(after) == addresses(simulators)


def test_an_endpoint_whose_metrics_hang_loses_its_traffic_until_they_answer(
    make_stack: MakeStack, start_simulators: StartSimulators
) -> None:
    hanging, *others = simulators = start_simulators(3)
    stack = stack_of(make_stack, simulators)

    with PoolClient(stack) as client:
        before = client.servers_of(*ROUND)
        hanging.fail(slow_metrics_seconds=3600)
        stack.picker.wait_until_known(hanging.address(), isStale=True)
        during = client.servers_of(*different_prompts(24)[12:])
        hanging.fail()
        stack.picker.wait_until_known(hanging.address(), isStale=False)
        after = client.servers_of(*different_prompts(36)[24:])

    assert set(before) == set(after) == addresses(simulators)
    assert set(during) == addresses(others)


def test_a_dead_server_that_is_still_in_the_pool_loses_its_traffic(
    make_stack: MakeStack, start_simulators: StartSimulators
) -> None:
    dead, *others = simulators = start_simulators(3)
    stack = stack_of(make_stack, simulators)
    address, alive = dead.address(), addresses(others)

    with PoolClient(stack) as client:
        dead.kill()
        stack.picker.wait_until_known(address, isStale=True)
        after = client.servers_of(*ROUND)

    assert set(after) == alive


def test_without_any_fresh_metrics_requests_go_on(
    make_stack: MakeStack, start_simulators: StartSimulators
) -> None:
    simulators = start_simulators(2)
    stack = stack_of(make_stack, simulators)

    with PoolClient(stack) as client:
        for simulator in simulators:
            simulator.fail(slow_metrics_seconds=3600)
        for simulator in simulators:
            stack.picker.wait_until_known(simulator.address(), isStale=True)
        during = client.servers_of(*ROUND)

    assert set(during) == addresses(simulators)


def test_a_burst_between_two_scrapes_spreads_evenly(
    make_stack: MakeStack, start_simulators: StartSimulators, write_config: WriteConfig
) -> None:
    """Pitfall 25: the metrics of all servers stay at nothing for the whole burst."""
    simulators = start_simulators(4, "--time-to-first-token=1h", "--max-num-seqs=40")
    stack = stack_of(
        make_stack, simulators, write_config(LEAST_ACTIVE), "--refresh-metrics-interval=1h"
    )
    body = json.dumps({"model": MODEL, "prompt": "Hello", "stream": True}).encode()

    def running() -> list[float]:
        return [each.value_of("vllm:num_requests_running") for each in simulators]

    with connected(stack.url) as connection:
        client = Http2Connection(connection)
        for _ in range(40):
            client.post("/v1/completions", {"content-type": "application/json"}, body)
        wait_until(lambda: sum(running()) == 40, "all requests run", stack.picker)
        spread = running()
        known = [stack.picker.endpoint(each.address())["running"] for each in simulators]
    stack.picker.wait_for_value("llm_d_epp_inflight_requests", 0)

    assert all(8 <= count <= 12 for count in spread), spread
    assert known == [0] * 4


def samples_of(page: str) -> dict[str, float]:
    """Every sample of a metrics page, by its name and labels as they are written."""
    lines = [line.rpartition(" ") for line in page.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def of_pool(*families: str, value: float) -> dict[str, float]:
    return {f'{family}{{name="standalone"}}': value for family in families}


def of_endpoint(name: str, queue_size: float) -> dict[str, float]:
    labels = f'{{name="standalone",model_server_endpoint="{name}"}}'
    return {f"llm_d_epp_per_endpoint_queue_size{labels}": queue_size}


def test_the_gauges_of_the_pool_add_up(
    make_stack: MakeStack, start_simulators: StartSimulators
) -> None:
    flags = ("--max-num-seqs=2", "--inter-token-latency=1h", "--kv-cache-size=20")
    full, half, idle = simulators = start_simulators(3, *flags)
    stack = stack_of(make_stack, simulators, "--refresh-prometheus-metrics-interval=50ms")

    with full.load(5), half.load(1):
        for simulator, running, waiting in ((full, 2, 3), (half, 1, 0), (idle, 0, 0)):
            address = simulator.address()
            stack.picker.wait_until_known(address, running=running, waiting=waiting)
        usage = fmean(each.value_of("vllm:kv_cache_usage_perc") for each in simulators)
        expected = {
            **of_pool("llm_d_epp_ready_endpoints", "inference_pool_ready_pods", value=3),
            **of_pool("llm_d_epp_average_queue_size", value=1),
            **of_pool("inference_pool_average_queue_size", value=1),
            **of_pool("llm_d_epp_std_dev_queue_size", value=1.73),
            **of_pool("llm_d_epp_average_running_requests", value=1),
            **of_pool("inference_pool_average_running_requests", value=1),
            **of_pool("llm_d_epp_std_dev_running_requests", value=1),
            **of_pool("llm_d_epp_average_kv_cache_utilization", value=round(usage, 2)),
            **of_endpoint("server-1", queue_size=3),
            **of_endpoint("server-2", queue_size=0),
            **of_endpoint("server-3", queue_size=0),
        }
        wait_until(
            lambda: expected.items() <= samples_of(stack.picker.metrics()).items(),
            f"these on the page: {expected}",
        )

    assert usage > 0
