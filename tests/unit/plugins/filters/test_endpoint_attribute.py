"""`endpoint-attribute-filter`."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from pydantic import ValidationError

from epp.plugins.filters.endpoint_attribute import EndpointAttributeFilter
from epp.testing import FakeContext, built, request_of
from tests.fakes.plugins.endpoint_attributes import endpoints_with


def threshold(operator: str, value: float) -> dict[str, Any]:
    return {"type": "threshold", "threshold": {"operator": operator, "value": value}}


@pytest.mark.parametrize(
    ("operator", "kept"),
    [
        ("LessThan", [0]),
        ("LessThanOrEqual", [0, 1]),
        ("GreaterThan", [2]),
        ("GreaterThanOrEqual", [1, 2]),
        ("Equal", [1]),
        ("NotEqual", [0, 2]),
    ],
)
def test_endpoints_are_kept_for_which_the_comparison_holds(operator: str, kept: list[int]) -> None:
    endpoints = endpoints_with(69.5, 70, 71)
    judge = built(
        EndpointAttributeFilter, attribute="temperature", algorithm=threshold(operator, 70)
    )

    assert judge.filter(request_of(), endpoints) == [endpoints[index] for index in kept]


@pytest.mark.parametrize(
    ("parameters", "kept"),
    [({}, [0, 1]), ({"on_missing": "Pass"}, [0, 1]), ({"on_missing": "Fail"}, [1])],
    ids=["default", "Pass", "Fail"],
)
def test_endpoints_without_the_attribute_pass_or_fail(
    parameters: dict[str, Any], kept: list[int]
) -> None:
    endpoints = endpoints_with(None, 1, 99)
    judge = built(
        EndpointAttributeFilter,
        attribute="temperature",
        algorithm=threshold("LessThan", 70),
        **parameters,
    )

    assert judge.filter(request_of(), endpoints) == [endpoints[index] for index in kept]


@pytest.mark.parametrize("falls_back", [False, True])
def test_nobody_left_is_nobody_unless_all_are_wanted_then(falls_back: bool) -> None:
    endpoints = endpoints_with(80, 90)
    judge = built(
        EndpointAttributeFilter,
        attribute="temperature",
        algorithm=threshold("LessThan", 70),
        fallback_on_empty=falls_back,
    )

    assert judge.filter(request_of(), endpoints) == (endpoints if falls_back else [])


def test_all_are_no_fallback_while_somebody_is_left() -> None:
    endpoints = endpoints_with(60, 90)
    judge = built(
        EndpointAttributeFilter,
        attribute="temperature",
        algorithm=threshold("LessThan", 70),
        fallback_on_empty=True,
    )

    assert judge.filter(request_of(), endpoints) == endpoints[:1]


@pytest.mark.parametrize(
    ("parameters", "producer"),
    [
        ({"attribute": "temperature"}, "core-metrics-extractor"),
        ({"attribute": "temperature", "producer": "mine"}, "mine"),
        ({"attribute": "a.b/temperature", "producer": ""}, ""),
    ],
)
def test_the_producer_is_the_one_that_is_named(parameters: dict[str, Any], producer: str) -> None:
    context = FakeContext()
    cool, hot = endpoints_with(20, 90, attribute=parameters["attribute"], producer=producer)

    judge = built(
        EndpointAttributeFilter, context, algorithm=threshold("LessThan", 70), **parameters
    )

    assert judge.filter(request_of(), [cool, hot]) == [cool]
    assert all(made.required and made.key for made in context.inputs)


COOL = threshold("LessThan", 70)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"algorithm": COOL}, "attribute"),
        ({"attribute": "", "algorithm": COOL}, "attribute"),
        ({"attribute": "t", "algorithm": COOL, "on_missing": "Keep"}, "'Pass' or 'Fail'"),
        ({"attribute": "t"}, "algorithm"),
        ({"attribute": "t", "algorithm": {"type": "topK"}}, "'threshold'"),
        ({"attribute": "t", "algorithm": {"type": "threshold"}}, r"algorithm\.threshold"),
        ({"attribute": "t", "algorithm": threshold("Below", 1)}, "'LessThan'.*'NotEqual'"),
        ({"attribute": "t", "algorithm": threshold("LessThan", inf)}, "finite"),
        (
            {"attribute": "t/core-metrics-extractor", "algorithm": COOL},
            "attribute 't/core-metrics-extractor' has a slash: say in `producer`",
        ),
    ],
)
def test_a_mistake_is_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        built(EndpointAttributeFilter, **parameters)
