"""The alert rules and the dashboard as Prometheus reads them: promtool, which build.sh builds."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.metrics.dashboard import targets
from tests.fakes.programs.prometheus import program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "config/prometheus/alerts.yaml"
TARGET = 'namespace="models",job="epp",instance="10.0.0.1:9090"'
OTHER = TARGET.replace("0.1:", "0.2:")
PICKED = 'llm_d_epp_scheduler_attempts_total{status="success",endpoint_name="e",port="8000"}'
SERVED = "llm_d_epp_request_processing_duration_seconds"

HEALTHY = {
    "epp_ready": "1x60",
    "epp_endpoints": "5x60",
    "epp_stale_endpoints": "0x60",
    "epp_ejected_endpoints": "0x60",
    "epp_unmatched_pods": "0x60",
    "epp_leader": "1x60",
    "epp_config_up_to_date": "1x60",
    "epp_pool_file_up_to_date": "1x60",
    "epp_requests_in_flight": "100x60",
    "epp_buffered_bytes": "1000000x60",
    "epp_event_loop_lag_seconds": "0.001x60",
    "process_resident_memory_bytes": "200000000x60",
    "process_open_fds": "100x60",
    "process_max_fds": "1000x60",
    'epp_informer_synced{resource="pods"}': "1x60",
    'epp_informer_synced{resource="inferenceobjectives"}': "0x60",
    'epp_informer_last_contact_seconds{resource="pods"}': "60x60",
    'epp_informer_last_contact_seconds{resource="inferenceobjectives"}': "9000x60",
    'epp_fail_open_total{reason="internal"}': "0x60",
    'epp_overload_total{signal="streams",outcome="rejected"}': "0x60",
    'epp_pool_problems_total{kind="gone"}': "0x60",
    'epp_pool_file_errors_total{kind="entry"}': "0x60",
    "epp_gauge_underflows_total": "0x60",
    "epp_response_phase_errors_total": "0x60",
    'epp_spans_lost_total{reason="queue-full"}': "0x60",
    'epp_responses_total{code_class="2xx"}': "0+600x60",
    'epp_responses_total{code_class="4xx"}': "0+300x60",
    'epp_responses_total{code_class="5xx"}': "0+1x60",
    'epp_requests_rejected_total{code="400",reason="bad_request"}': "0+300x60",
    'epp_requests_rejected_total{code="429",reason="rejected-saturated"}': "0+1x60",
    f"{SERVED}_count": "0+900x60",
    f'{SERVED}_bucket{{le="0.01"}}': "0+900x60",
    f'{SERVED}_bucket{{le="0.5"}}': "0+900x60",
    f'{SERVED}_bucket{{le="+Inf"}}': "0+900x60",
    'epp_endpoint_errors_total{endpoint_name="e",port="8000"}': "0+5x60",
    PICKED: "0+100x60",
    'llm_d_epp_datalayer_poll_errors_total{source_type="s"}': "0x60",
    'epp_scrape_duration_seconds_count{source_type="s"}': "0+900x60",
}
"""What a picker shows that has nothing to worry about, minute by minute."""

SICK: dict[str, dict[str, str]] = {
    "EndpointPickerAbsent": {"epp_ready": ""},
    "EndpointPickerNotReady": {"epp_ready": "0x60"},
    "EndpointPickerLeaders": {"epp_leader": "0x60"},
    "EndpointPickerFailsOpen": {'epp_fail_open_total{reason="internal"}': "0+1x60"},
    "EndpointPickerSlow": {f'{SERVED}_bucket{{le="0.01"}}': "0+880x60"},
    "EndpointPickerNoEndpoints": {"epp_endpoints": "0x60"},
    "EndpointPickerAllMetricsStale": {"epp_stale_endpoints": "5x60"},
    "EndpointPickerMetricsStale": {"epp_stale_endpoints": "2x60"},
    "EndpointPickerScrapesFail": {
        'llm_d_epp_datalayer_poll_errors_total{source_type="s"}': "0+100x60"
    },
    "EndpointPickerMetricsUnread": {
        'llm_d_epp_datalayer_extract_errors_total{source_type="s",extractor_type="e"}': "0+1x60"
    },
    "EndpointPickerEndpointsEjected": {"epp_ejected_endpoints": "1x60"},
    "EndpointPickerEndpointErrors": {
        'epp_endpoint_errors_total{endpoint_name="e",port="8000"}': "0+30x60"
    },
    "EndpointPickerUnmatchedPods": {"epp_unmatched_pods": "1x60"},
    "EndpointPickerRejects": {
        'epp_requests_rejected_total{code="429",reason="rejected-saturated"}': "0+60x60"
    },
    "EndpointPickerErrorRate": {'epp_responses_total{code_class="5xx"}': "0+60x60"},
    "EndpointPickerPluginErrors": {
        'epp_plugin_errors_total{extension_point="Scorer",plugin_type="t",plugin_name="n"}': (
            "0+1x60"
        )
    },
    "EndpointPickerPluginSwitchedOff": {
        'epp_plugins_switched_off_total{plugin_type="t",plugin_name="n"}': "_x5 1x60"
    },
    "EndpointPickerBug": {"epp_response_phase_errors_total": "0x10 1x60"},
    "EndpointPickerSpansLost": {'epp_spans_lost_total{reason="queue-full"}': "0+1x60"},
    "EndpointPickerOverloaded": {
        'epp_overload_total{signal="streams",outcome="rejected"}': "0+1x60"
    },
    "EndpointPickerLoopLag": {"epp_event_loop_lag_seconds": "0.2x60"},
    "EndpointPickerManyStreams": {"epp_requests_in_flight": "16001x60"},
    "EndpointPickerManyBufferedBytes": {"epp_buffered_bytes": "900000000x60"},
    "EndpointPickerMemory": {"process_resident_memory_bytes": "2600000000x60"},
    "EndpointPickerOpenFiles": {"process_open_fds": "900x60"},
    "EndpointPickerConfigRefused": {"epp_config_up_to_date": "0x60"},
    "EndpointPickerPoolFileRefused": {"epp_pool_file_up_to_date": "0x60"},
    "EndpointPickerPoolFileEntries": {'epp_pool_file_errors_total{kind="entry"}': "0x10 1x60"},
    "EndpointPickerPoolProblem": {'epp_pool_problems_total{kind="gone"}': "0x10 1x60"},
    "EndpointPickerUnsynced": {'epp_informer_synced{resource="pods"}': "0x60"},
    "EndpointPickerApiServerSilent": {
        'epp_informer_last_contact_seconds{resource="pods"}': "900x60"
    },
}
"""What is otherwise while each alert is wanted; an empty text: the series is not there."""
CONSEQUENCES = {
    "EndpointPickerAllMetricsStale": {"EndpointPickerMetricsStale"},
    "EndpointPickerAbsent": set[str](),
}
MINUTES = {"EndpointPickerUnmatchedPods": "45m"}


def promtool(*arguments: str | Path) -> str:
    """What it prints; fails with that if it is not content."""
    command = [program("promtool"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def with_labels(series: str, labels: str = TARGET) -> str:
    name, brace, own = series.partition("{")
    return f"{name}{{{labels},{own}" if brace else f"{name}{{{labels}}}"


def input_series(changes: dict[str, str]) -> list[dict[str, str]]:
    values = {**HEALTHY, **changes}
    return [
        {"series": with_labels(series), "values": value}
        for series, value in values.items()
        if value
    ]


def scenario(alerts: set[str], changes: dict[str, str], minute: str) -> dict[str, Any]:
    """These alerts fire and no others do."""
    wanted = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)]
    return {
        "name": ", ".join(sorted(alerts)) or "all is well",
        "interval": "1m",
        "input_series": input_series(changes),
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": minute,
                "exp_samples": wanted,
            }
        ],
    }


def tested(tmp_path: Path, *scenarios: dict[str, Any]) -> None:
    document = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [*scenarios]}
    path = tmp_path / "scenarios.yaml"
    path.write_text(yaml.safe_dump(document))
    promtool("test", "rules", path)


def test_the_rules_are_what_prometheus_takes() -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)


def test_every_expression_of_the_dashboard_is_promql(tmp_path: Path) -> None:
    expressions = [target.filled_in({}, rate_interval="5m", shown="1h") for target in targets()]
    rules = [{"record": f"panel:{n}", "expr": each} for n, each in enumerate(expressions)]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    assert f"{len(expressions)} rules found" in promtool("check", "rules", "--lint=none", path)


def test_nothing_fires_while_all_is_well(tmp_path: Path) -> None:
    tested(tmp_path, scenario(set(), {}, "25m"))


def test_every_alert_fires_for_what_it_is_about_and_no_other_does(tmp_path: Path) -> None:
    rules = [
        each for group in yaml.safe_load(ALERTS.read_text())["groups"] for each in group["rules"]
    ]
    assert SICK.keys() == {rule["alert"] for rule in rules}

    tested(
        tmp_path,
        *(
            scenario({alert} | CONSEQUENCES.get(alert, set()), changes, MINUTES.get(alert, "20m"))
            for alert, changes in SICK.items()
        ),
    )


def test_a_replica_that_waits_to_lead_is_no_reason_for_an_alert(tmp_path: Path) -> None:
    waiting = scenario(set(), {}, "25m")
    waiting["input_series"] += [
        {"series": with_labels("epp_ready", OTHER), "values": "0x60"},
        {"series": with_labels("epp_leader", OTHER), "values": "0x60"},
    ]

    tested(tmp_path, waiting)
