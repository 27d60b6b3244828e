"""Alert rules name nothing that a picker does not show, and say what to do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.metrics.promql import read_promql
from tests.fakes.metrics.shown_series import faults_in, labels_of

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "config/prometheus/alerts.yaml"


def rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]


def anchors() -> set[str]:
    """Of the headings of docs/operations.md."""
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs/operations.md").read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def test_every_series_and_label_of_the_alerts_exists() -> None:
    for rule in rules():
        assert faults_in(read_promql(rule["expr"])) == [], rule["alert"]


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


def test_the_pages_command_makes_a_manifest_of_the_rules(tmp_path: Path) -> None:
    text = (ROOT / "docs/operations.md").read_text()
    command = re.search(r"^\$ (\(printf .*\)) \| kubectl apply -f -$", text, re.M)
    assert command is not None

    printed = subprocess.run(command[1], shell=True, cwd=ROOT, capture_output=True, check=True)

    manifest = yaml.safe_load(printed.stdout)
    assert manifest["kind"] == "PrometheusRule"
    assert manifest["spec"] == yaml.safe_load(ALERTS.read_text())


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
