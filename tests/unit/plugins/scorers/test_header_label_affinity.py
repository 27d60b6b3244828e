"""`header-label-affinity-scorer`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from epp.plugins.scorers.header_label_affinity import HeaderLabelAffinityScorer
from epp.testing import built, endpoint_of, request_of

ENDPOINTS = [
    endpoint_of("e1", labels={"tier": "gold"}),
    endpoint_of("e2", labels={"tier": "Gold"}),
    endpoint_of("e3", labels={"tier": ""}),
    endpoint_of("e4"),
]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-tier": "gold"}, [1, 0, 0, 0]),
        ({"x-tier": "silver"}, [0, 0, 0, 0]),
        ({"x-tier": ""}, [0, 0, 0, 0]),
        ({}, [0, 0, 0, 0]),
    ],
    ids=["one matches", "none matches", "empty", "missing"],
)
def test_the_label_that_equals_the_header_scores_1(
    headers: dict[str, str], expected: list[float]
) -> None:
    scorer = built(HeaderLabelAffinityScorer, header_name="X-Tier", label_key="tier")

    assert scorer.score(request_of(headers=headers), ENDPOINTS) == expected


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"labelKey": "tier"}, "headerName"),
        ({"headerName": "x-tier"}, "labelKey"),
        ({"headerName": "", "labelKey": "tier"}, "headerName"),
        ({"headerName": "x-tier", "labelKey": ""}, "labelKey"),
    ],
)
def test_both_names_are_needed(parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        built(HeaderLabelAffinityScorer, **parameters)
