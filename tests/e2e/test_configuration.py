"""What an EndpointPickerConfig changes for clients, and changes of it under traffic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import openai
import pytest
import yaml

from epp.standalone.envoy_clusters import Address
from tests.e2e.conftest import StartSimulators
from tests.fakes.programs.load import Load
from tests.fakes.programs.pool_client import PoolClient, different_prompts
from tests.fakes.programs.processes import MODEL
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e

BODY = json.dumps({"model": MODEL, "prompt": "Hello", "max_tokens": 1}).encode()
OBJECTIVE = "x-llm-d-inference-objective"
REASON = "x-llm-d-request-dropped-reason"
RELOADS = "epp_config_reloads_total"
WEIGHING = """
plugins: [{type: queue-scorer}, {type: active-request-scorer}]
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer, weight: %s}, {pluginRef: active-request-scorer}]
"""
LISTING = """
plugins:
- {type: queue-scorer}
- {type: file-discovery, parameters: {path: %s, watchFile: true}}
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]
dataLayer: {discovery: {pluginRef: file-discovery}}
"""
SHEDDING = """
plugins:
- {type: queue-scorer}
- {type: utilization-detector, parameters: {kvCacheUtilThreshold: 0.1}}
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]
flowControl: {saturationDetector: {pluginRef: utilization-detector}}
"""

WriteConfig = Callable[[str], str]


class Volume:
    """A ConfigMap's volume: a file behind a symbolic link that is swapped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._versions = 0
        self.file = folder / "config.yaml"
        folder.mkdir()

    def publish(self, text: str) -> None:
        """Put another version in place of the one that is there, as kubelet does."""
        self._versions += 1
        version = self._folder / f"..{self._versions}"
        version.mkdir()
        (version / "config.yaml").write_text(text)
        link = self._folder / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self._folder / "..data")
        if not self.file.is_symlink():
            self.file.symlink_to("..data/config.yaml")


def wait_for_reloads(stack: Stack, outcome: str, number: int) -> None:
    line = f'{RELOADS}{{outcome="{outcome}"}} {number}'
    wait_until(lambda: line in stack.picker.metrics().splitlines(), line, stack.picker)


def test_another_version_counts_at_once_and_a_broken_one_never(
    make_stack: MakeStack, tmp_path: Path
) -> None:
    """Pitfall 50."""
    volume = Volume(tmp_path / "volume")
    volume.publish(WEIGHING % 2)
    flags = [f"--config-file={volume.file}", "--decision-header"]
    stack = make_stack(fail_open=False, picker_flags=flags)

    with PoolClient(stack) as client, Load(f"{stack.url}/v1/completions", BODY) as load:
        before = client.ask("Hello").decision
        load.wait_for_more("200")
        volume.publish(WEIGHING % 5)
        wait_for_reloads(stack, "success", 1)
        heavier = client.ask("Hello").decision
        volume.publish(WEIGHING % "heavy")
        wait_for_reloads(stack, "failure", 1)
        kept = client.ask("Hello").decision
        volume.publish(WEIGHING % 7)
        wait_for_reloads(stack, "success", 2)
        load.wait_for_more("200")
        heaviest = client.ask("Hello").decision
    for name in ("epp_requests_in_flight", "llm_d_epp_inflight_requests"):
        stack.picker.wait_for_value(name, 0)

    decisions = (before, heavier, kept, heaviest)
    for decision, weight in zip(decisions, (2, 5, 5, 7), strict=True):
        assert f"(queue-scorer 1x{weight}, " in decision
    assert set(load.outcomes) == {"200"}
    refusal = json.loads(stack.picker.wait_for_line("configuration refused"))
    assert "schedulingProfiles[0].plugins[0].weight" in refusal["problem"]


def write_endpoints(path: Path, *addresses: Address) -> None:
    entries = [
        {"name": f"listed-{address.port}", "address": address.host, "port": str(address.port)}
        for address in addresses
    ]
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump({"endpoints": entries}))
    new.replace(path)


def test_endpoints_come_from_the_file_that_the_configuration_names(
    make_stack: MakeStack,
    servers: tuple[Address, ...],
    write_config: WriteConfig,
    tmp_path: Path,
) -> None:
    listed = tmp_path / "endpoints.yaml"
    write_endpoints(listed, servers[0])
    config = write_config(LISTING % listed)
    stack = make_stack(fail_open=False, has_pool_file=False, picker_flags=[config])

    with PoolClient(stack) as client:
        first = client.servers_of(*different_prompts(4))
        write_endpoints(listed, *servers[1:])
        wait_until(lambda: client.ask("Hello").server != str(servers[0]), "the other endpoints")
        then = client.servers_of(*different_prompts(8))

    assert set(first) == {str(servers[0])}
    assert set(then) == {str(server) for server in servers[1:]}


def test_requests_of_low_priority_are_shed_at_saturation(
    make_stack: MakeStack, start_simulators: StartSimulators, write_config: WriteConfig
) -> None:
    (simulator,) = start_simulators(1, "--inter-token-latency=1h", "--kv-cache-size=64")
    server = simulator.address()
    config = write_config(SHEDDING)
    stack = make_stack(servers=[server], fail_open=False, picker_flags=[config], pool=())
    stack.write_pool([server], fail_open=False, priorities={"batch": -1, "chat": 3})
    wait_until(lambda: str(server) in stack.picker.pool_page(), "the pool with its objectives")

    def ask(client: PoolClient, objective: str) -> str:
        return client.ask("Hello", headers={OBJECTIVE: objective}).server

    with PoolClient(stack) as client:
        with simulator.load(1, prompt="long " * 400):
            wait_until(lambda: stack.picker.endpoint(server)["kvCacheUsage"] > 0.1, "a full cache")
            with pytest.raises(openai.RateLimitError) as shed:
                ask(client, "batch")
            served = [ask(client, "chat"), ask(client, "unknown"), client.ask("Hello").server]
        stack.picker.wait_until_known(server, kvCacheUsage=0.0)
        after = ask(client, "batch")

    assert shed.value.response.headers[REASON] == "rejected-saturated"
    assert "retry-after" in shed.value.response.headers
    assert {*served, after} == {str(server)}
    page = stack.picker.metrics().splitlines()
    for priority, number in ((-1, 1), (0, 2), (3, 1)):
        (count,) = [
            line.rpartition(" ")[2]
            for line in page
            if line.startswith("llm_d_epp_request_total{") and f'priority="{priority}"' in line
        ]
        assert float(count) == number
    assert 'epp_requests_rejected_total{code="429",reason="rejected-saturated"} 1' in page


@pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])
def test_what_each_scorer_said_is_told_to_clients_and_totals_to_the_gateway(
    make_stack: MakeStack, fail_open: bool
) -> None:
    flags = ["--decision-header", "--emit-endpoint-scores"]
    stack = make_stack(fail_open=fail_open, picker_flags=flags)
    addresses = {str(server) for server in stack.servers}

    with PoolClient(stack) as client:
        first, second = client.ask("Hello"), client.ask("Hello")
    wait_until(lambda: len(stack.access_log.read_text().splitlines()) == 2, "the access log")

    assert first.server == second.server
    assert second.decision.startswith(f"default -> {second.server}: {second.server}=")
    assert "prefix-cache-scorer 1x3)" in second.decision
    logged = [json.loads(line)["scores"] for line in stack.access_log.read_text().splitlines()]
    assert [set(scores) for scores in logged] == [addresses] * 2
    assert max(logged[1], key=logged[1].get) == second.server
    assert logged[1][second.server] > 6.9
