"""Admission by chance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from epp.framework.endpoint import Endpoint
from epp.framework.errors import DropReason, ErrorCode, Rejection
from epp.plugins.admitters.probabilistic import ProbabilisticAdmitter
from epp.testing import FakeContext, built, endpoint_of, request_of

QUIET = [endpoint_of("e1", waiting=1, kv=0.1), endpoint_of("e2", kv=0.2)]
FULL = [endpoint_of("e1", waiting=5)]


def is_admitted(made: ProbabilisticAdmitter, endpoints: list[Endpoint], priority: int) -> bool:
    try:
        made.admit(request_of(priority=priority), endpoints)
    except Rejection:
        return False
    return True


@pytest.mark.parametrize(
    ("endpoints", "saturation", "probability"),
    [
        pytest.param(QUIET, 0.225, 0.172995, id="G31"),
        pytest.param(FULL, 1.0, 1.0, id="full"),
        pytest.param([endpoint_of("e1")], 0.0, 0.0, id="idle"),
    ],
)
def test_probability_rises_with_saturation(
    endpoints: list[Endpoint], saturation: float, probability: float
) -> None:
    made = built(ProbabilisticAdmitter)

    assert made.saturation(endpoints) == pytest.approx(saturation, abs=1e-6)
    assert made.denial_probability(saturation) == pytest.approx(probability, abs=1e-6)


def test_requests_are_denied_as_often_as_the_probability_says() -> None:
    made = built(ProbabilisticAdmitter, FakeContext(seed=5))

    denied = sum(not is_admitted(made, QUIET, -1) for _ in range(4000))

    assert 600 < denied < 790


def test_a_denial_tells_the_saturation() -> None:
    with pytest.raises(Rejection, match=r"rejected, saturation=1\.000 prob=1\.00") as raised:
        built(ProbabilisticAdmitter).admit(request_of(priority=-1), FULL)

    assert raised.value.code is ErrorCode.RESOURCE_EXHAUSTED
    assert (raised.value.drop_reason, raised.value.retry_after) == (DropReason.SATURATED, 1)


@pytest.mark.parametrize(("endpoints", "priority"), [(FULL, 0), (FULL, 2), ([], -1)])
def test_other_requests_are_admitted(endpoints: list[Endpoint], priority: int) -> None:
    assert is_admitted(built(ProbabilisticAdmitter), endpoints, priority)


positive = st.floats(min_value=1e-300, max_value=1e300)


@given(saturation=st.floats(min_value=0, max_value=1e300), power=positive, k=positive)
def test_a_probability_is_a_probability(saturation: float, power: float, k: float) -> None:
    made = built(ProbabilisticAdmitter, power=power, k=k)

    assert 0 <= made.denial_probability(saturation) <= 1


@pytest.mark.parametrize(
    "field", ["queue_depth_threshold", "kv_cache_util_threshold", "power", "k"]
)
def test_parameters_must_be_positive(field: str) -> None:
    parameters: dict[str, Any] = {field: 0}
    with pytest.raises(ValidationError):
        built(ProbabilisticAdmitter, **parameters)
