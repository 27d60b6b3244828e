from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.metric_specs import CounterSpec, GaugeSpec
from epp.observability.instruments import Counter, Family, FamilySet, Gauge, Histogram


@given(changes=st.lists(st.integers(-5, 5)))
def test_a_gauge_is_never_negative_and_every_clamp_is_counted(changes: list[int]) -> None:
    underflows = Counter()
    gauge = Gauge(underflows)
    clamps = 0
    for change in changes:
        before = gauge.value
        if change < 0:
            gauge.dec(-change)
        else:
            gauge.inc(change)
        clamps += before + change < 0
        assert gauge.value == max(0, before + change)
    assert underflows.value == clamps


@given(values=st.lists(st.floats(-1, 20)))
def test_an_observation_is_in_every_bucket_whose_bound_it_does_not_exceed(
    values: list[float],
) -> None:
    bounds = (0.5, 1.0, 10.0)
    histogram = Histogram(bounds)

    for value in values:
        histogram.observe(value)

    cumulative = [sum(histogram.counts[: index + 1]) for index in range(len(histogram.counts))]
    expected = [sum(value <= bound for value in values) for bound in (*bounds, float("inf"))]
    assert cumulative == expected
    assert histogram.sum == pytest.approx(sum(values))


def test_the_same_label_values_are_the_same_series() -> None:
    family = Family(CounterSpec(name="c_total", help="c", labels=("a", "b")), Counter)

    assert family.labels(("1", "2")) is family.labels(("1", "2"))
    assert family.labels(("1", "2")) is not family.labels(("2", "1"))


def test_series_beyond_the_limit_are_counted_together_as_other() -> None:
    spec = CounterSpec(name="c_total", help="c", labels=("a", "b"))
    family = Family(spec, Counter, max_series=2)

    for index in range(5):
        family.labels((str(index), "x")).inc()

    assert {values: series.value for values, series in family.items()} == {
        ("0", "x"): 1,
        ("1", "x"): 1,
        ("other", "other"): 3,
    }


def test_expendable_labels_give_way_first_and_the_others_when_that_does_not_help() -> None:
    spec = CounterSpec(name="c_total", help="c", labels=("a", "b"), expendable=("a",))
    family = Family(spec, Counter, max_series=2)

    for index in range(5):
        family.labels((str(index), "x")).inc()
        family.labels((str(index), "y")).inc()
    family.labels(("9", "z")).inc()
    family.labels(("9", "x")).inc()

    assert {values: series.value for values, series in family.items()} == {
        ("0", "x"): 1,
        ("0", "y"): 1,
        ("other", "x"): 5,
        ("other", "y"): 4,
        ("other", "other"): 1,
    }


def test_the_wrong_number_of_labels_is_an_error_that_names_the_metric() -> None:
    family = Family(CounterSpec(name="c_total", help="c", labels=("a",)), Counter)

    with pytest.raises(ValueError, match="c_total"):
        family.labels(("1", "2"))


def test_an_underflow_shows_as_a_metric() -> None:
    build = FamilySet(CounterSpec(name="underflows_total", help="u"))
    gauge = build.gauge(GaugeSpec(name="g", help="g")).labels(())

    gauge.dec()

    assert build.families[0].items()[0][1].value == 1  # type: ignore[union-attr]  # a counter
