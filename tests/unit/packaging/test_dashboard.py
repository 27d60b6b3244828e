"""The dashboard shows nothing that a picker does not, and anybody can import and read it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.metrics.dashboard import DASHBOARD, dashboard, targets, with_spans
from tests.fakes.metrics.grafana_models import faults_in_dashboard
from tests.fakes.metrics.promql import read_promql
from tests.fakes.metrics.shown_series import faults_in, labels_of, spec_of

ROOT = Path(__file__).parents[3]
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")


def variables() -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in dashboard()["templating"]["list"]}


def without_variables(text: str) -> str:
    return _VARIABLE.sub("x", with_spans(text, rate_interval="5m", shown="1h"))


def test_grafana_knows_every_panel_field_and_value() -> None:
    assert faults_in_dashboard(dashboard()) == []


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda panel: panel.update(type="time-series"), "no panel of type time-series"),
        (lambda panel: panel["options"]["legend"].update(place="bottom"), ".place: no such field"),
        (lambda panel: panel["options"]["legend"].update(placement="down"), "'down' is none of"),
        (lambda panel: panel["targets"][0].update(expression="up"), ".expression: no such field"),
        (lambda panel: panel["targets"][0].update(format="lines"), "'lines' is none of"),
        (lambda panel: panel["targets"][0]["datasource"].update(type="prom"), "no data source"),
        (lambda panel: panel["fieldConfig"]["defaults"].update(units="s"), ".units: no such field"),
    ],
)
def test_what_grafana_would_not_know_is_found(
    spoil: Callable[[dict[str, Any]], None], fault: str
) -> None:
    document = dashboard()
    spoil(next(panel for panel in document["panels"] if panel["type"] == "timeseries"))

    assert any(fault in each for each in faults_in_dashboard(document))


def test_every_series_and_label_of_the_dashboard_exists() -> None:
    for target in targets():
        assert faults_in(read_promql(without_variables(target.expression))) == [], target.panel


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


def test_nothing_in_it_belongs_to_one_grafana() -> None:
    document = dashboard()
    shown = [panel for panel in document["panels"] if panel["type"] != "row"]
    asking = [*shown, *(target for panel in shown for target in panel["targets"])]
    asking += [each for each in variables().values() if each["type"] == "query"]

    assert "id" not in document
    assert {each["datasource"]["uid"] for each in asking} == {"${datasource}"}
    assert variables()["datasource"]["query"] == "prometheus"


def test_numbers_have_a_unit_and_lines_a_name() -> None:
    for panel in dashboard()["panels"]:
        if panel["type"] != "row":
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        if panel["type"] == "timeseries":
            assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


def test_of_what_there_may_be_hundreds_the_most_are_shown() -> None:
    many = {"endpoint_name", "model_server_endpoint", "model_name", "fairness_id"}
    for target in targets():
        if many & set(re.findall(r"{{(\w+)}}", target.legend)):
            assert " and topk(15, " in target.expression, target.panel


def test_legends_show_labels_that_their_expressions_keep() -> None:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            kept = read_promql(without_variables(target["expr"])).grouping
            assert shown <= kept, panel["title"]


def test_averages_are_shown_while_there_is_something_to_average() -> None:
    """They keep their values when the last endpoint goes."""
    for target in targets():
        read = {each.metric for each in read_promql(without_variables(target.expression)).selectors}
        if any(re.match("llm_d_epp_(average|std_dev)_", metric) for metric in read):
            assert "llm_d_epp_ready_endpoints" in read, target.panel


def test_requests_in_flight_fall_to_zero_where_their_series_end() -> None:
    (shown,) = (each for each in targets() if each.panel == "In flight by endpoint")

    assert " or 0 * sum by (endpoint_name) (max_over_time(" in shown.expression


def test_picks_are_compared_among_the_endpoints_of_now() -> None:
    """The series of those that left stay for a while, those never picked have none."""
    for target in targets():
        if target.panel == "Spread of picks":
            read = read_promql(without_variables(target.expression)).selectors
            assert "llm_d_epp_per_endpoint_queue_size" in {each.metric for each in read}


def test_no_axis_has_words_for_numbers() -> None:
    """Grafana 10.2 writes the text for an empty panel at an axis without decimals."""
    for panel in dashboard()["panels"]:
        if panel["type"] == "timeseries":
            assert not {"noValue", "decimals"} <= panel["fieldConfig"]["defaults"].keys()


def test_panels_that_the_page_sends_to_are_there() -> None:
    told = re.findall(r"\bpanel `([^`]+)`", (ROOT / "docs/operations.md").read_text())

    assert told
    assert set(told) <= {panel["title"] for panel in dashboard()["panels"]}


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
