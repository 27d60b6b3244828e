"""The dashboard and the alerts on what a real Prometheus reads of a pool that has troubles.

In the rules of these tests each minute is a second; tests/slow/test_alerts.py has their real times.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from epp.standalone.envoy_clusters import Address
from tests.fakes.metrics.dashboard import Target, targets, variables
from tests.fakes.pickers.applications import kubeconfig_for
from tests.fakes.programs.load import Load
from tests.fakes.programs.processes import MODEL, Picker, PortSource, Simulator
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.prometheus import Prometheus
from tests.fakes.programs.stack import Stack

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "config/prometheus/alerts.yaml"
PROMPT = "Why is the sky blue? " * 20
COMPLETION = {"model": MODEL, "prompt": PROMPT, "max_tokens": 4}
STREAMED = {
    "model": MODEL,
    "messages": [{"role": "user", "content": PROMPT}],
    "max_tokens": 8,
    "stream": True,
    "stream_options": {"include_usage": True},
}
CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: active-request-scorer
- type: prefix-cache-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer}
  - {pluginRef: active-request-scorer, weight: 3}
  - {pluginRef: prefix-cache-scorer}
  - {pluginRef: max-score-picker}
"""
POLL_SECONDS = 0.25
"""Nothing new comes more often than each second."""
NEVER_HERE = {
    ("Picks that failed", "{{target_model_name}}"): "no filter leaves everybody out",
    ("What should not be", "message ignored, {{kind}}"): "Envoy sends none that means nothing",
    ("Errors, switched off", "errors, {{extension_point}} {{plugin_name}}"): "no plugin fails",
    ("Errors, switched off", "off, {{plugin_name}}"): "and none holds up requests",
    ("What should not be", "change not told, {{resource}}"): "nothing of a cluster is ever read",
    ("API server last heard of", "{{resource}}"): "it never was",
}
"""Lines of panels that these pickers have no reason to show."""


@dataclass(frozen=True)
class Watched:
    """Pickers and the Prometheus that reads them: `epp` has a pool and traffic, `lost` is one in a
    cluster whose API server is never heard of."""

    stack: Stack
    simulators: list[Simulator]
    prometheus: Prometheus
    rules: Path

    def restore_pool(self) -> None:
        """All endpoints."""
        addresses: list[Address] = [each.address() for each in self.simulators]
        self.stack.write_pool(addresses, fail_open=False)

    @contextmanager
    def told_by(self, *alerts: str) -> Iterator[Callable[[], None]]:
        """These alerts about `epp` are over at the beginning and in the end; within, what is given
        waits until all are firing."""
        self.wait_for(alerts, are_firing=False)
        yield lambda: self.wait_for(alerts, are_firing=True)
        self.wait_for(alerts, are_firing=False)

    def wait_for(self, alerts: Sequence[str], *, are_firing: bool, job: str = "epp") -> None:
        """Wait until each of these alerts is firing about a job, or none of them is."""
        wanted = set(alerts) if are_firing else set()
        wait_until(
            lambda: self.prometheus.firing(self.rules, job) & set(alerts) == wanted,
            f"{' and '.join(alerts)} of {job} {'to fire' if are_firing else 'to be over'}",
            self.prometheus,
            poll_seconds=POLL_SECONDS,
        )


def hasty_rules(folder: Path) -> Path:
    def seconds(match: re.Match[str]) -> str:
        return f"{int(match[1]) * (60 if match[2] == 'h' else 1)}s"

    path = folder / "hasty.yaml"
    path.write_text(re.sub(r"\b(\d+)([mh])\b", seconds, ALERTS.read_text()))
    return path


def metrics_address(picker: Picker) -> str:
    return picker.metrics_url.removeprefix("http://").removesuffix("/metrics")


def lost_picker(folder: Path, ports: PortSource) -> Picker:
    """One whose API server does not listen."""
    kubeconfig = kubeconfig_for(f"http://127.0.0.1:{ports.take()}", folder)
    pool = ["--pool-name=models", f"--kubeconfig={kubeconfig}", "--metrics-endpoint-auth=false"]
    return Picker("lost", folder, pool, ports, ["--ha-enable-leader-election"])


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    (config := folder / "config.yaml").write_text(CONFIG)
    ports = PortSource()
    with ExitStack() as running:
        timing = ["--time-to-first-token=10ms", "--inter-token-latency=5ms"]
        simulators = [Simulator(f"server-{number}", folder, timing) for number in (1, 2, 3)]
        lost = lost_picker(folder, ports)
        for program in (*simulators, lost):
            program.start()
            running.callback(program.kill)
        addresses = [simulator.address() for simulator in simulators]
        flags = [f"--config-file={config}"]
        stack = running.enter_context(
            Stack(folder, ports, addresses, fail_open=False, picker_flags=flags)
        )
        jobs = {"epp": metrics_address(stack.picker), "lost": metrics_address(lost)}
        rules = hasty_rules(folder)
        prometheus = Prometheus(folder, jobs, [ALERTS, rules])
        prometheus.start()
        running.callback(prometheus.kill)
        fine = dict.fromkeys(jobs, ("up", ""))
        wait_until(lambda: prometheus.scrapes() == fine, "pages", poll_seconds=POLL_SECONDS)
        for path, body in (("completions", COMPLETION), ("chat/completions", STREAMED)):
            running.enter_context(Load(f"{stack.url}/v1/{path}", json.dumps(body).encode(), 1))
        yield Watched(stack, simulators, prometheus, rules)


def is_empty(target: Target, prometheus: Prometheus, filled_in: Mapping[str, str]) -> bool:
    """Whether a query never brought a number; Grafana makes 4 s of a scrape each second."""
    query = target.filled_in(filled_in, rate_interval="4s", shown="1m")
    return not any(map(math.isfinite, prometheus.numbers(query)))


def names_of(shown: Iterable[Target]) -> set[tuple[str, str]]:
    return {(each.panel, each.legend) for each in shown}


def test_every_panel_shows_something(watched: Watched) -> None:
    empty = list(targets())

    def rest_is_never_here() -> bool:
        filled_in = variables(watched.prometheus.values)
        empty[:] = [each for each in empty if is_empty(each, watched.prometheus, filled_in)]
        return names_of(empty) <= NEVER_HERE.keys()

    with Load(f"{watched.stack.url}/v1/completions", b'{"model": 7}', 1) as refused:
        watched.simulators[0].fail(status=500)
        watched.simulators[1].fail(slow_metrics_seconds=2)
        try:
            wait_until(rest_is_never_here, "data in all panels", poll_seconds=POLL_SECONDS)
        finally:
            print("no data:", *empty, sep="\n")
            watched.simulators[0].fail()
            watched.simulators[1].fail()

    assert refused.outcomes.keys() == {"400"}
    assert names_of(empty) == NEVER_HERE.keys()


def test_rules_are_evaluated_without_an_error(watched: Watched) -> None:
    prometheus = watched.prometheus
    rules = len(re.findall("alert:", ALERTS.read_text()))

    for file in (ALERTS, watched.rules):
        wait_until(lambda file=file: "unknown" not in prometheus.healths(file), "rules")  # type: ignore[misc]  # of this file

        assert prometheus.healths(file) == ["ok"] * rules


def test_a_pool_without_endpoints_is_told_until_it_has_some(watched: Watched) -> None:
    with watched.told_by("EndpointPickerNoEndpoints", "EndpointPickerRejects") as firing:
        watched.stack.write_pool([], fail_open=False)
        firing()
        watched.restore_pool()


def test_model_servers_that_fail_are_told_until_they_are_mended(watched: Watched) -> None:
    alerts = [
        f"EndpointPicker{each}" for each in ("ErrorRate", "EndpointErrors", "EndpointsEjected")
    ]
    with watched.told_by(*alerts) as firing:
        for simulator in watched.simulators:  # one of them alone would be ejected
            simulator.fail(status=500)
        firing()
        for simulator in watched.simulators:
            simulator.fail()


def test_a_model_server_that_is_not_heard_of_is_told_until_it_is(watched: Watched) -> None:
    with watched.told_by("EndpointPickerMetricsStale") as firing:
        watched.simulators[0].fail(slow_metrics_seconds=5)
        firing()
        watched.simulators[0].fail()


def test_a_pool_file_that_can_not_be_read_is_told_until_it_can(watched: Watched) -> None:
    with watched.told_by("EndpointPickerPoolFileRefused") as firing:
        watched.stack.pool_file.write_text("kind: [")
        firing()
        watched.restore_pool()


def test_one_picker_of_two_that_is_gone_is_told_until_it_is_back(watched: Watched) -> None:
    with watched.told_by("EndpointPickerAbsent") as firing:
        watched.stack.picker.kill()
        firing()
        assert "No replica of epp is scraped." in watched.prometheus.summaries(watched.rules)
        watched.stack.picker.start()


def test_a_picker_that_never_hears_of_its_cluster_is_told(watched: Watched) -> None:
    alerts = [
        f"EndpointPicker{each}" for each in ("NotReady", "NoEndpoints", "Unsynced", "Leaders")
    ]

    watched.wait_for(alerts, are_firing=True, job="lost")
