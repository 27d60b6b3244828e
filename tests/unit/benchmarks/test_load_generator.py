from __future__ import annotations

import json

import pytest

from tests.benchmarks.load_generator import LoadError, read

REPORT = {
    "requests": 500.0,
    "picks": 480,
    "seconds": 2.0,
    "errors": 0,
    "first_error": "",
    "pick_p50_ms": 1.0,
    "pick_p99_ms": 2.0,
    "cpu_seconds": 1.5,
    "own_cpu_seconds": 0.5,
    "rss_bytes": 1000,
    "scrapes": 60,
}


def test_a_report_without_errors_is_taken() -> None:
    assert read(json.dumps(REPORT)).per_second == 250.0


def test_failed_requests_spoil_a_report() -> None:
    with pytest.raises(LoadError, match=r"3 requests failed, 500.0 did not: immediate response"):
        read(json.dumps(REPORT | {"errors": 3, "first_error": "immediate response"}))


def test_a_report_without_requests_is_none() -> None:
    with pytest.raises(LoadError, match="0 requests failed"):
        read(json.dumps(REPORT | {"requests": 0.0}))
