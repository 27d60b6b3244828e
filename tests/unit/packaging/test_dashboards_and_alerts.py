"""Dashboards and alert rules name nothing that a picker does not show."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from epp.config.descriptions import describe
from epp.config.plugin_registry import PluginRegistry
from epp.framework.metric_specs import CounterSpec, HistogramSpec, MetricSpec
from epp.observability.deprecated_twins import twin_spec
from epp.observability.metric_catalogue import CATALOGUE
from epp.observability.metrics import Metrics
from tests.fakes.dashboard import DASHBOARD, dashboard, targets, with_spans
from tests.fakes.metric_samples import page
from tests.fakes.promql import Expression, Selector, read_promql

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "config/prometheus/alerts.yaml"
OF_THE_SCRAPE = {"namespace", "job", "instance", "pod"}
"""Labels that every series gets from Prometheus."""
OF_PROMETHEUS = {"ALERTS": {"alertname", "alertstate", "severity"}}
"""Series that it writes itself, with their labels."""
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")


@cache
def specs() -> Mapping[str, MetricSpec]:
    """Every metric by name, those of bundled plugins and former names included."""
    registry = PluginRegistry()
    own = [spec for section in CATALOGUE for spec in section.metrics]
    of_plugins = [spec for each in registry.types() for spec in describe(each, registry).metrics]
    found = {spec.name: spec for spec in (*own, *of_plugins)}
    twins = [twin_spec(spec, spec.twin) for spec in found.values() if spec.twin is not None]
    return found | {twin.name: twin for twin in twins}


@cache
def process_series() -> frozenset[str]:
    """Names that prometheus_client gives the process."""
    return frozenset(re.findall(r"^(process_\w+) ", page(Metrics()), re.M))


def spec_of(series: str) -> MetricSpec | None:
    """The metric that a series belongs to; a histogram is never read without its suffix."""
    spec = specs().get(series)
    if spec is not None:
        return None if isinstance(spec, HistogramSpec) else spec
    name, _, part = series.rpartition("_")
    spec = specs().get(name)
    known = isinstance(spec, HistogramSpec) and part in {"bucket", "sum", "count"}
    return spec if known else None


def labels_of(series: str) -> set[str]:
    spec = spec_of(series)
    bucket = {"le"} if series.endswith("_bucket") else set()
    own = set(spec.labels) if spec is not None else OF_PROMETHEUS.get(series, set())
    return OF_THE_SCRAPE | bucket | own


def faults_of(selector: Selector) -> Iterator[str]:
    name = selector.metric
    spec = spec_of(name)
    if spec is None and name not in process_series() | OF_PROMETHEUS.keys():
        yield f"there is no {name}"
        return
    if unknown := selector.labels - labels_of(name):
        yield f"{name} has no {', '.join(sorted(unknown))}"
    grows = isinstance(spec, CounterSpec | HistogramSpec) or name.endswith("_total")
    if selector.is_rate and not grows:
        yield f"{name} is no counter, its rate says nothing"
    if selector.is_rate and not selector.has_range:
        yield f"{name} needs a range"


def faults_in(expression: Expression) -> list[str]:
    found = [fault for selector in expression.selectors for fault in faults_of(selector)]
    known = {"le"}.union(*(labels_of(selector.metric) for selector in expression.selectors))
    if unknown := expression.grouping - known:
        found.append(f"grouped by {', '.join(sorted(unknown))}, which nothing has")
    return found


def variables() -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in dashboard()["templating"]["list"]}


def without_variables(text: str) -> str:
    return _VARIABLE.sub("x", with_spans(text, rate_interval="5m", shown="1h"))


def rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]


def anchors() -> set[str]:
    """Of the headings of docs/operations.md."""
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs/operations.md").read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def test_every_series_and_label_of_the_dashboard_exists() -> None:
    for target in targets():
        assert faults_in(read_promql(without_variables(target.expression))) == [], target.panel


def test_every_series_and_label_of_the_alerts_exists() -> None:
    for rule in rules():
        assert faults_in(read_promql(rule["expr"])) == [], rule["alert"]


def test_variables_are_asked_for_in_series_that_exist_and_are_used() -> None:
    known = variables()
    for name, variable in known.items():
        if variable["type"] == "query":
            query = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            assert query is not None, name
            expression = read_promql(without_variables(query[1]))
            assert faults_in(expression) == [], name
            assert query[2] in labels_of(expression.selectors[0].metric), name

    text = DASHBOARD.read_text()
    used = {first or second for first, second in _VARIABLE.findall(text)}
    assert used == known.keys() | {"__all", "__rate_interval", "__range"}


def test_panels_have_places_of_their_own_below_the_rows_of_an_operator() -> None:
    panels = dashboard()["panels"]
    places = set()
    for panel in panels:
        place = panel["gridPos"]
        for row in range(place["y"], place["y"] + place["h"]):
            for column in range(place["x"], place["x"] + place["w"]):
                assert column < 24, panel["title"]
                assert (row, column) not in places, panel["title"]
                places.add((row, column))

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if panel["type"] == "row"] == [
        "Now",
        "Traffic",
        "Picks",
        "Latency",
        "Pool and endpoints",
        "Scraping of model servers",
        "Errors and rejections",
        "Plugins",
        "Process",
    ]


def test_legends_show_labels_that_their_expressions_keep() -> None:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            kept = read_promql(without_variables(target["expr"])).grouping
            assert shown <= kept, panel["title"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_how_bad_it_is_what_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    annotations = rule["annotations"]
    document, _, anchor = annotations["runbook"].partition("#")

    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert document == "docs/operations.md"
    assert anchor in anchors()
    assert annotations["summary"].endswith(".")
    assert "for" in rule or "increase(" in rule["expr"] or "switched_off" in rule["expr"]


def test_labels_in_summaries_are_left_by_the_expression() -> None:
    for rule in rules():
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        expression = read_promql(rule["expr"])
        kept = expression.grouping or labels_of(expression.selectors[0].metric)
        assert shown <= kept, rule["alert"]


def test_alerts_are_named_once() -> None:
    names = [rule["alert"] for rule in rules()]

    assert len(set(names)) == len(names)


def test_the_table_of_the_page_names_every_alert_once() -> None:
    _, _, text = (ROOT / "docs/operations.md").read_text().partition("## Dashboards and alerts")
    told = re.findall(r"`(EndpointPicker\w+)`", text)

    assert sorted(told) == sorted(rule["alert"] for rule in rules())


def test_panels_that_the_page_sends_to_are_there() -> None:
    told = re.findall(r"\bpanel `([^`]+)`", (ROOT / "docs/operations.md").read_text())

    assert told
    assert set(told) <= {panel["title"] for panel in dashboard()["panels"]}


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("sum(rate(epp_no_such_total[5m]))", "there is no epp_no_such_total"),
        ("llm_d_epp_request_duration_seconds", "there is no llm_d_epp_request_duration_seconds"),
        ('epp_ready{model="m"}', "epp_ready has no model"),
        ("rate(epp_ready[5m])", "epp_ready is no counter, its rate says nothing"),
        ("rate(epp_fail_open_total)", "epp_fail_open_total needs a range"),
        ("sum by (le, model) (epp_ready)", "grouped by model, which nothing has"),
    ],
)
def test_what_is_wrong_is_found(expression: str, fault: str) -> None:
    assert faults_in(read_promql(expression)) == [fault]


@pytest.mark.parametrize("text", ["sum(epp_ready", "epp_ready}", "epp_ready ~ 1", '{a="b"}'])
def test_what_is_no_promql_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        read_promql(text)


@pytest.mark.parametrize(
    "series",
    [
        "inference_objective_request_total",
        "inference_objective_request_error_total",
        "inference_objective_request_duration_seconds_bucket",
        "inference_objective_request_sizes_bucket",
        "inference_objective_response_sizes_bucket",
        "inference_objective_input_tokens_bucket",
        "inference_objective_output_tokens_bucket",
        "inference_pool_average_kv_cache_utilization",
        "inference_pool_average_queue_size",
        "inference_pool_per_pod_queue_size",
        "llm_d_epp_average_kv_cache_utilization",
        "llm_d_epp_average_queue_size",
        "llm_d_epp_per_endpoint_queue_size",
        "llm_d_epp_request_size_bytes_bucket",
    ],
)
def test_series_of_the_dashboards_of_the_reference_exist(series: str) -> None:
    assert spec_of(series) is not None


def test_the_pages_command_makes_a_manifest_of_the_rules(tmp_path: Path) -> None:
    text = (ROOT / "docs/operations.md").read_text()
    command = re.search(r"^\$ (\(printf .*\)) \| kubectl apply -f -$", text, re.M)
    assert command is not None

    printed = subprocess.run(command[1], shell=True, cwd=ROOT, capture_output=True, check=True)

    manifest = yaml.safe_load(printed.stdout)
    assert manifest["kind"] == "PrometheusRule"
    assert manifest["spec"] == yaml.safe_load(ALERTS.read_text())


def test_the_pages_command_turns_names_between_the_two_into_those_of_today(tmp_path: Path) -> None:
    text = (ROOT / "docs/operations.md").read_text()
    command = re.search(r"^\$ (sed -i .*) dashboard.json$", text, re.M)
    assert command is not None
    between = [
        "request_sizes_bucket",
        "request_response_sizes_bucket",
        "request_total",
        "average_queue_size",
        "request_input_tokens_bucket",
        "per_endpoint_queue_size",
    ]
    board = tmp_path / "dashboard.json"
    board.write_text("\n".join(f"llm_d_router_epp_{name}" for name in between))

    subprocess.run(f"{command[1]} {board}", shell=True, check=True)

    assert all(spec_of(name) is not None for name in board.read_text().splitlines())


def test_the_pod_monitor_finds_the_port_of_the_pods() -> None:
    monitor = yaml.safe_load((ROOT / "config/prometheus/pod-monitor.yaml").read_text())["spec"]
    template = yaml.safe_load((ROOT / "config/base/deployment.yaml").read_text())["spec"][
        "template"
    ]
    (container,) = template["spec"]["containers"]

    assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in container["ports"]}
    assert endpoint["path"] == "/metrics"
