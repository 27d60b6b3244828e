"""Admission by predicted latency."""

from __future__ import annotations

import pytest

from epp.framework.data_types import LATENCY_PREDICTION, LatencyPrediction
from epp.framework.endpoint import Endpoint
from epp.framework.errors import DropReason, ErrorCode, Rejection
from epp.framework.request import InferenceRequest
from epp.plugins.admitters.latency_slo import LatencySloAdmitter
from epp.testing import FakeContext, built, endpoint_of, put, request_of

SLO = {"x-llm-d-slo-ttft-ms": "100"}
TOO_SLOW = LatencyPrediction(ttft_valid=True)
IN_TIME = LatencyPrediction(ttft_valid=True, tpot_valid=True)


def busy(name: str) -> Endpoint:
    return endpoint_of(name, running=3, kv=0.5)


def denial(
    predictions: dict[Endpoint, LatencyPrediction],
    endpoints: list[Endpoint],
    request: InferenceRequest,
) -> Rejection | None:
    put(LATENCY_PREDICTION, request, predictions)
    try:
        built(LatencySloAdmitter).admit(request, endpoints)
    except Rejection as raised:
        return raised
    return None


def sheddable(**headers: str) -> InferenceRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return request_of(priority=-1, headers=named or SLO)


def test_a_request_that_nobody_serves_in_time_is_denied() -> None:
    e1, e2 = busy("e1"), busy("e2")

    denied = denial({e1: TOO_SLOW}, [e1, e2], sheddable())

    assert denied is not None
    assert denied.code is ErrorCode.RESOURCE_EXHAUSTED
    assert (denied.drop_reason, denied.retry_after) == (DropReason.SATURATED, 1)
    assert denied.message == "no valid endpoint available to serve the request"


@pytest.mark.parametrize("other", [busy("e2"), endpoint_of("e2", running=0, kv=0.5)])
def test_one_endpoint_in_time_or_idle_is_enough(other: Endpoint) -> None:
    e1 = busy("e1")
    predictions = {e1: TOO_SLOW, other: IN_TIME} if other.metrics.running_requests_size else {}

    assert denial({e1: TOO_SLOW, **predictions}, [e1, other], sheddable()) is None


def test_a_cold_endpoint_is_not_trusted_to_be_slow() -> None:
    cold = endpoint_of("e1", running=3, kv=0.019)

    assert denial({cold: TOO_SLOW}, [cold], sheddable()) is None


def test_without_predictions_everything_is_admitted() -> None:
    assert denial({}, [busy("e1")], sheddable()) is None


@pytest.mark.parametrize("priority", [0, 1])
def test_only_negative_priorities_are_denied(priority: int) -> None:
    e1 = busy("e1")

    assert denial({e1: TOO_SLOW}, [e1], request_of(priority=priority, headers=SLO)) is None


@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ({"x_other": "1"}, True),
        ({"x_llm_d_slo_ttft_ms": "0"}, True),
        ({"x_llm_d_slo_ttft_ms": "-5"}, True),
        ({"x_llm_d_slo_ttft_ms": "soon"}, True),
        ({"x_llm_d_slo_ttft_ms": "nan"}, True),
        ({"x_llm_d_slo_tpot_ms": "0.5"}, False),
        ({"x_slo_ttft_ms": "10"}, False),
        ({"x_slo_tpot_ms": "10"}, False),
        ({"x_slo_ttft_ms": "10", "x_llm_d_slo_ttft_ms": ""}, True),
    ],
)
def test_a_request_without_an_objective_is_admitted(
    headers: dict[str, str], admitted: bool
) -> None:
    e1 = busy("e1")

    assert (denial({e1: TOO_SLOW}, [e1], sheddable(**headers)) is None) is admitted


def test_predictions_are_optional() -> None:
    context = FakeContext()
    built(LatencySloAdmitter, context)

    assert [made.required for made in context.inputs] == [False]
