"""Saturation by queues and KV caches."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from epp.framework.endpoint import Endpoint
from epp.plugins.saturation.utilization import UtilizationDetector
from epp.testing import FakeContext, built, endpoint_of, request_of

NOW = 1000.0


def stale(endpoint: Endpoint) -> Endpoint:
    endpoint.state.is_stale = True
    return endpoint


def at(now: float, **parameters: Any) -> UtilizationDetector:
    return built(UtilizationDetector, FakeContext(now=lambda: now), **parameters)


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        pytest.param(
            [
                endpoint_of("e1", waiting=2, kv=0.4),
                endpoint_of("e2", waiting=6, kv=0.2),
                endpoint_of("e3", kv=0.88),
            ],
            0.933333,
            id="G29",
        ),
        pytest.param(
            [endpoint_of("e1", waiting=2, kv=0.4), stale(endpoint_of("e2", updated_at=990.0))],
            0.75,
            id="G30",
        ),
        pytest.param([], 1.0, id="no endpoints"),
        pytest.param([endpoint_of("e1", updated_at=None)], 1.0, id="never heard of"),
    ],
)
def test_saturation_is_the_mean_of_the_worse_ratios(
    endpoints: list[Endpoint], expected: float
) -> None:
    assert at(NOW).saturation(endpoints) == pytest.approx(expected, abs=1e-6)


def test_the_filter_keeps_whom_it_hears_of_below_the_limits() -> None:
    fresh = endpoint_of("e1", waiting=2, kv=0.4)
    others = [
        stale(endpoint_of("e2", updated_at=990.0)),
        endpoint_of("e3", waiting=5),
        endpoint_of("e4", kv=0.8),
        endpoint_of("e5", updated_at=None),
    ]

    assert at(NOW).filter(request_of(), [fresh, *others]) == [fresh]
    assert at(NOW).filter(request_of(), others) == others


def test_headroom_lets_the_filter_exceed_the_thresholds_and_leaves_saturation_as_it_is() -> None:
    over = endpoint_of("e1", waiting=5, kv=0.85)
    far_over = endpoint_of("e2", waiting=6)
    made = at(NOW, headroom=0.2)

    assert made.filter(request_of(), [over, far_over]) == [over]
    assert made.saturation([far_over]) == pytest.approx(1.2)


def test_metrics_that_are_old_for_want_of_traffic_are_believed() -> None:
    idle = endpoint_of("e1", updated_at=NOW - 60)

    assert at(NOW).saturation([idle]) == 0
    assert at(NOW).filter(request_of(), [idle, endpoint_of("e2", waiting=9)]) == [idle]


@pytest.mark.parametrize(("threshold", "expected"), [("200ms", 1.0), ("5s", 0.0), ("1m", 0.0)])
def test_a_threshold_can_only_extend_what_is_believed(threshold: str, expected: float) -> None:
    endpoint = stale(endpoint_of("e1", updated_at=NOW - 2))

    assert at(NOW, metrics_staleness_threshold=threshold).saturation([endpoint]) == expected


@pytest.mark.parametrize(
    "parameters",
    [
        {"queue_depth_threshold": 0},
        {"kv_cache_util_threshold": 1.1},
        {"kv_cache_util_threshold": 0.0},
        {"metrics_staleness_threshold": "0s"},
        {"metrics_staleness_threshold": "soon"},
        {"headroom": -0.1},
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        at(NOW, **parameters)
