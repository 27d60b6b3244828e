from __future__ import annotations

import pytest

from epp.framework.headers import Headers
from epp.request_control.objectives import priority_of

NEW, OLD = "x-llm-d-inference-objective", "x-gateway-inference-objective"
PRIORITIES = {"gold": 5, "batch": -1, "none": 0}


@pytest.mark.parametrize(
    ("headers", "priority"),
    [
        ({NEW: b"gold"}, 5),
        ({OLD: b"gold"}, 5),
        ({NEW: b"batch", OLD: b"gold"}, -1),
        ({NEW: b"", OLD: b"gold"}, 0),
        ({NEW: b"brass"}, 0),
        ({NEW: b"Gold"}, 0),
        ({NEW: b"\xff"}, 0),
        ({}, 0),
    ],
    ids=[
        "new name",
        "old name",
        "new name first",
        "new name first though empty",
        "unknown",
        "case counts",
        "not UTF-8",
        "no header",
    ],
)
def test_the_objective_that_is_named_gives_the_priority(
    headers: dict[str, bytes], priority: int
) -> None:
    assert priority_of(Headers(headers.items()), PRIORITIES) == priority


def test_of_a_repeated_header_the_last_one_counts() -> None:
    assert priority_of(Headers([(NEW, b"batch"), (NEW, b"gold")]), PRIORITIES) == 5


def test_without_objectives_every_request_has_the_same_priority() -> None:
    assert priority_of(Headers([(NEW, b"gold")]), {}) == 0
