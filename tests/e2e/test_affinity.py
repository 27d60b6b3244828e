"""Requests that go where what they need is already: cached prefixes, LoRA adapters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import anthropic
import pytest

from tests.e2e.conftest import StartSimulators
from tests.fakes.pickers.applications import TAKING_TURNS
from tests.fakes.programs.pool_client import SERVED, PoolClient, different_prompts
from tests.fakes.programs.processes import MODEL, Simulator
from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e

SYSTEM_PROMPT = "You are a helpful assistant who knows everything about endpoints. " * 40
CONVERSATIONS = 4
TURNS = 5
LORA = """
plugins: [{type: lora-affinity-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: lora-affinity-scorer}]}]
"""

WriteConfig = Callable[[str], str]


def stack_of(make_stack: MakeStack, simulators: list[Simulator], *flags: str) -> Stack:
    servers = [simulator.address() for simulator in simulators]
    return make_stack(servers=servers, fail_open=False, picker_flags=flags)


def hit_ratio(simulators: list[Simulator]) -> float:
    """What share of all prompt tokens the servers found in their caches."""
    hits = sum(each.value_of("vllm:prefix_cache_hits_total") for each in simulators)
    return hits / sum(each.value_of("vllm:prefix_cache_queries_total") for each in simulators)


def test_requests_with_one_long_prefix_stick_to_one_server(
    make_stack: MakeStack, start_simulators: StartSimulators
) -> None:
    simulators = start_simulators(3)
    stack = stack_of(make_stack, simulators)

    with anthropic.Anthropic(base_url=stack.url, api_key="none", max_retries=0) as client:
        answers = [
            client.messages.with_raw_response.create(
                model=MODEL,
                max_tokens=1,
                system=SYSTEM_PROMPT,
                messages=[{"role": "user", "content": question}],
            )
            for question in different_prompts(12)
        ]

    assert len({answer.headers[SERVED] for answer in answers}) == 1
    cached = [answer.parse().usage.cache_read_input_tokens or 0 for answer in answers]
    assert cached[0] == 0
    assert min(cached[1:]) > 300
    assert 'hit_ratio_bucket{plugin_name="approx-prefix-cache-producer"' in stack.picker.metrics()


def test_conversations_find_more_in_the_cache_than_by_taking_turns(
    make_stack: MakeStack, start_simulators: StartSimulators, write_config: WriteConfig
) -> None:
    ratios = {}
    for name, flags in (("default", ()), ("turns", (write_config(TAKING_TURNS),))):
        simulators = start_simulators(3)
        with PoolClient(stack_of(make_stack, simulators, *flags)) as client:
            for turn in range(TURNS):
                for conversation in range(CONVERSATIONS):
                    client.ask(f"{conversation} {SYSTEM_PROMPT * (turn + 1)}")
        ratios[name] = hit_ratio(simulators)

    assert ratios["default"] > ratios["turns"] + 0.1, ratios


def test_different_prompts_share_the_servers_out(
    make_stack: MakeStack, start_simulators: StartSimulators
) -> None:
    simulators = start_simulators(3)

    with PoolClient(stack_of(make_stack, simulators)) as client:
        served = Counter(client.servers_of(*different_prompts(30)))

    assert len(served) == 3
    assert min(served.values()) >= 3, served


def test_an_adapters_requests_go_where_it_is_loaded(
    make_stack: MakeStack, start_simulators: StartSimulators, write_config: WriteConfig
) -> None:
    adapters = ("french", "german")
    flags = ("--inter-token-latency=1h", "--max-num-seqs=4", "--max-loras=1")
    simulators = start_simulators(3, *flags, "--lora-modules", *adapters)
    stack = stack_of(make_stack, simulators, write_config(LORA), "--decision-header")
    home = dict(zip(adapters, simulators, strict=False))

    with (
        PoolClient(stack) as client,
        home["french"].load(1, model="french"),
        home["german"].load(1, model="german"),
    ):
        for simulator in home.values():
            stack.picker.wait_until_known(simulator.address(), running=1)
        picks = {
            adapter: [client.ask(prompt, model=adapter) for prompt in different_prompts(6)]
            for adapter in adapters
        }
        base = {client.ask(prompt).server for prompt in different_prompts(6)}

    for adapter in adapters:
        address = str(home[adapter].address())
        assert {pick.server for pick in picks[adapter]} == {address}
        assert f"{address}=1(lora-affinity-scorer 1x1)" in picks[adapter][0].decision
    assert base == {str(simulators[2].address())}, "only the third has room for another adapter"
