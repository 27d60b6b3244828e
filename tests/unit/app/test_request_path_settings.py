"""What flags of the request path are set is in force in the room that acts on it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from epp.app.request_path_settings import request_path_settings
from epp.datastore.inference_pool import FailureMode
from epp.gateway.replies import ErrorFormat
from tests.fakes.pickers.applications import options_for_tests

CASES: list[tuple[dict[str, object], dict[str, object]]] = [
    ({"failure_mode": "FailOpen"}, {"director.failure_mode": FailureMode.FAIL_OPEN}),
    ({"decision_timeout": 9.0}, {"director.decision_timeout": 9.0}),
    (
        {"max_request_body_bytes": 9},
        {"director.max_request_body_bytes": 9, "gateway.max_request_body_bytes": 9},
    ),
    ({"disable_endpoint_subset_filter": True}, {"director.use_subset": False}),
    ({"emit_endpoint_scores": True}, {"director.emit_endpoint_scores": True}),
    ({"body_idle_timeout": 9.0}, {"gateway.body_idle_timeout": 9.0}),
    ({"error_format": "json"}, {"gateway.error_format": ErrorFormat.JSON}),
    ({"skip_response_processing": True}, {"gateway.skip_response": True}),
    ({"served_endpoint_header": True}, {"response.served_endpoint_header": True}),
    ({"debug_response_header": True}, {"response.debug_header": True}),
    ({"decision_header": True}, {"response.decision_header": True}),
    ({"max_streams": 9}, {"overload.streams": 9}),
    ({"max_buffered_bytes": 1 << 40}, {"overload.buffered_bytes": 1 << 40}),
    ({"max_loop_lag": 9.0}, {"overload.loop_lag_seconds": 9.0}),
    ({"outlier_consecutive_errors": 9}, {"outliers.consecutive_errors": 9}),
    ({"decision_log_size": 9}, {"decision_log_size": 9}),
]
WITHOUT_A_FLAG = {
    "director.log_level",
    "outliers.first_ejection",
    "outliers.longest_ejection",
    "outliers.silence",
    "outliers.largest_share",
}


def flat(settings: object, at: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for each in fields(settings):  # type: ignore[arg-type]  # only called with dataclasses
        value = getattr(settings, each.name)
        path = f"{at}{each.name}"
        values |= flat(value, f"{path}.") if is_dataclass(value) else {path: value}
    return values


def settings_of(**options: object) -> dict[str, Any]:
    return flat(request_path_settings(options_for_tests(**options)))


@pytest.mark.parametrize(("options", "settings"), CASES, ids=[",".join(each) for each, _ in CASES])
def test_a_flag_sets_what_it_is_about_and_nothing_else(
    options: dict[str, object], settings: dict[str, object]
) -> None:
    before, after = settings_of(), settings_of(**options)

    assert {path: value for path, value in after.items() if before[path] != value} == settings


def test_every_setting_has_its_flag() -> None:
    assert settings_of().keys() - {path for _, each in CASES for path in each} == WITHOUT_A_FLAG
