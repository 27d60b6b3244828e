from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from epp.framework.metric_specs import CounterSpec, HistogramSpec
from epp.observability.exposition import (
    SLICE_BYTES,
    format_bound,
    wants_openmetrics,
    write_families,
)
from epp.observability.instruments import FamilySet

PROMETHEUS_3_ACCEPT = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
UNDERFLOWS = CounterSpec(name="underflows_total", help="u")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (PROMETHEUS_3_ACCEPT, True),
        ("application/openmetrics-text", True),
        ("Application/OpenMetrics-Text; Q=0.5, text/plain;q=0.4", True),
        ("application/openmetrics-text;q=0.5,text/plain", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=much", False),
        ("text/plain;version=0.0.4", False),
        ("text/html,*/*", False),
        ("", False),
    ],
)
def test_openmetrics_is_written_when_it_is_asked_for(accept: str, expected: bool) -> None:
    assert wants_openmetrics(accept) is expected


@given(accept=st.text(max_size=60))
def test_no_accept_header_is_an_error(accept: str) -> None:
    assert wants_openmetrics(accept) in (True, False)


@pytest.mark.parametrize(
    ("bound", "text", "openmetrics"),
    [
        (0.0001, "0.0001", "0.0001"),
        (1, "1", "1.0"),
        (2.5, "2.5", "2.5"),
        (524288, "524288", "524288.0"),
        (1000000, "1e+06", "1e+06"),
        (1048576, "1.048576e+06", "1.048576e+06"),
        (1073741824, "1.073741824e+09", "1.073741824e+09"),
    ],
)
def test_bucket_bounds_are_spelt_as_in_go(bound: float, text: str, openmetrics: str) -> None:
    assert format_bound(bound, openmetrics=False) == text
    assert format_bound(bound, openmetrics=True) == openmetrics


@given(value=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_any_label_value_is_read_back_as_it_was(value: str) -> None:
    build = FamilySet(UNDERFLOWS)
    build.counter(CounterSpec(name="c_total", help="c", labels=("a", "b"))).labels(
        (value, "x")
    ).inc()
    expected = {"a": value, "b": "x"}

    text = "".join(write_families(build.families, openmetrics=False))
    openmetrics = "".join(write_families(build.families, openmetrics=True)) + "# EOF\n"

    assert list(parse_text(text))[1].samples[0].labels == expected
    families = list(parse_openmetrics(openmetrics))  # type: ignore[no-untyped-call]
    assert families[1].samples[0].labels == expected


def test_a_metric_without_series_is_left_out() -> None:
    build = FamilySet(UNDERFLOWS)
    build.counter(CounterSpec(name="unseen_total", help="c", labels=("a",)))

    assert "unseen" not in "".join(write_families(build.families, openmetrics=False))


def test_a_large_page_comes_in_slices_that_end_with_a_line() -> None:
    build = FamilySet(UNDERFLOWS)
    spec = HistogramSpec(name="h", help="h", labels=("a",), bounds=tuple(range(1, 50)))
    family = build.histogram(spec)
    for index in range(300):
        family.labels((f"value-{index}",)).observe(index)

    slices = list(write_families(build.families, openmetrics=False))

    assert len(slices) > 3
    assert all(piece.endswith("\n") and len(piece) < 2 * SLICE_BYTES for piece in slices)
    assert len(list(parse_text("".join(slices)))[1].samples) == 300 * 52


def test_series_that_appear_while_the_page_is_written_do_no_harm() -> None:
    build = FamilySet(UNDERFLOWS)
    family = build.histogram(
        HistogramSpec(name="h", help="h", labels=("a",), bounds=tuple(range(1, 50)))
    )
    for index in range(200):
        family.labels((str(index),)).observe(1)

    slices: list[str] = []
    for piece in write_families(build.families, openmetrics=False):
        family.labels((f"late-{len(slices)}",)).observe(1)
        slices.append(piece)

    assert len(list(parse_text("".join(slices)))[1].samples) >= 200 * 52
