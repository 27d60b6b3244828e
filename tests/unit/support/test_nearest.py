from __future__ import annotations

import pytest

from epp.support.nearest import did_you_mean, nearest

FLAGS = (
    "--grpc-port",
    "--grpc-health-port",
    "--drain-timeout",
    "--secure-serving",
    "--tracing",
    "--endpoints",
    "--emit-endpoint-scores",
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--grcp-port", "--grpc-port"),
        ("--drain", "--drain-timeout"),
        ("--secure", "--secure-serving"),
        ("--health-port", "--grpc-health-port"),
        ("--TRACING", "--tracing"),
        ("--endpoint", "--endpoints"),
    ],
)
def test_a_typo_or_a_forgotten_word_leads_to_the_name_meant(given: str, expected: str) -> None:
    assert nearest(given, FLAGS) == expected


def test_only_a_near_name_is_suggested() -> None:
    assert did_you_mean("FailClosed", ["FailOpen", "FailClose"]) == "; did you mean 'FailClose'?"
    assert did_you_mean("xyz", ["FailOpen", "FailClose"]) == ""


def test_many_long_names_are_compared_by_their_parts_first() -> None:
    known = [f"{'x' * 500}-{number}" for number in range(900)] + ["queue-scorer"]

    assert nearest("quee-scorer", known) == "queue-scorer"
    assert did_you_mean("z", known) == ""
