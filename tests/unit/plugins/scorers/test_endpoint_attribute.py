"""`endpoint-attribute-scorer`."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from pydantic import ValidationError

from epp.plugins.scorers.endpoint_attribute import EndpointAttributeScorer
from epp.testing import FakeContext, built, request_of
from tests.fakes.plugins.endpoint_attributes import endpoints_with

LOWER = {"type": "linear_lower_is_better"}
HIGHER = {"type": "linear_higher_is_better"}


def ranged(algorithm: dict[str, Any], least: float, most: float) -> dict[str, Any]:
    return {**algorithm, "normalization": {"fixedRange": {"min": least, "max": most}}}


@pytest.mark.parametrize(
    ("algorithm", "values", "expected"),
    [
        pytest.param(LOWER, [10, 5, 0], [0, 0.5, 1], id="lower"),
        pytest.param(HIGHER, [10, 5, 0], [1, 0.5, 0], id="higher"),
        pytest.param(LOWER, [10, None, 0, 5], [0, 0, 1, 0.5], id="missing scores 0"),
        pytest.param(LOWER, [7, None, 7], [1, 0, 1], id="all equal"),
        pytest.param(HIGHER, [None, None], [0, 0], id="nobody has it"),
        pytest.param(LOWER, [10, nan, 0], [0, 0, 1], id="not a number"),
        pytest.param(
            {**LOWER, "normalization": {"adaptiveRange": {}}}, [4, 0], [0, 1], id="adaptive"
        ),
        pytest.param(ranged(LOWER, 0, 1), [0.25, 1, 0], [0.75, 0, 1], id="fixed lower"),
        pytest.param(ranged(HIGHER, 10, 20), [15, 20, 10], [0.5, 1, 0], id="fixed higher"),
        pytest.param(
            ranged(HIGHER, 0, 1), [-3, 7, inf, None], [0, 1, 1, 0], id="clamped to the range"
        ),
        pytest.param(ranged(LOWER, 0, 1), [nan, None], [0, 0], id="fixed without a number"),
        pytest.param(
            {**HIGHER, "normalization": {"fixedRange": {"max": 4}}}, [1], [0.25], id="from 0"
        ),
    ],
)
def test_scores_are_the_references(
    algorithm: dict[str, Any], values: list[float | None], expected: list[float]
) -> None:
    scorer = built(EndpointAttributeScorer, attribute_key="depth", algorithm=algorithm)

    scores = scorer.score(request_of(), endpoints_with(*values, attribute="depth"))

    assert scores == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("parameters", "producer"),
    [
        ({"attribute_key": "depth"}, "core-metrics-extractor"),
        ({"attribute_key": "depth", "producer": None}, "core-metrics-extractor"),
        ({"attribute_key": "depth", "producer": "mine"}, "mine"),
        ({"attribute_key": "depth", "producer": ""}, ""),
        ({"attribute_key": "a.b/depth", "producer": ""}, ""),
        ({"attribute_key": "a.b/depth", "producer": "mine"}, "mine"),
    ],
)
def test_the_producer_is_the_one_that_is_named(parameters: dict[str, Any], producer: str) -> None:
    context = FakeContext()
    endpoints = endpoints_with(2, 4, attribute=parameters["attribute_key"], producer=producer)

    scorer = built(EndpointAttributeScorer, context, algorithm=LOWER, **parameters)

    assert scorer.score(request_of(), endpoints) == [1, 0]
    assert all(made.required and made.key for made in context.inputs)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"algorithm": LOWER}, "attributeKey"),
        ({"attributeKey": "", "algorithm": LOWER}, "attributeKey"),
        ({"attribute_key": "depth"}, "algorithm"),
        ({"attribute_key": "depth", "algorithm": {}}, r"algorithm\.type"),
        (
            {"attribute_key": "depth", "algorithm": {"type": "cubic"}},
            "'linear_lower_is_better' or 'linear_higher_is_better'",
        ),
        (
            {"attribute_key": "depth", "algorithm": ranged(LOWER, 2, 1)},
            "min 2 is not below max 1",
        ),
        (
            {"attribute_key": "depth", "algorithm": ranged(LOWER, 1, 1)},
            "min 1 is not below max 1",
        ),
        (
            {"attribute_key": "depth", "algorithm": ranged(LOWER, 0, inf)},
            "finite",
        ),
        (
            {
                "attribute_key": "depth",
                "algorithm": {
                    **LOWER,
                    "normalization": {"fixedRange": {"max": 1}, "adaptiveRange": {}},
                },
            },
            "at most one is allowed",
        ),
        (
            {"attribute_key": "depth/core-metrics-extractor", "algorithm": LOWER},
            "attributeKey 'depth/core-metrics-extractor' has a slash: say in `producer`",
        ),
    ],
)
def test_a_mistake_is_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        built(EndpointAttributeScorer, **parameters)
