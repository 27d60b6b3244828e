from __future__ import annotations

from epp.simulator.adapters import AdapterHistory


def test_the_newest_combination_has_the_largest_value_even_within_one_instant() -> None:
    history = AdapterHistory()
    history.record(["b", "a", "b"], [], 100.0)
    history.record(["a"], ["c"], 100.0)
    history.record(["a", "b"], [], 100.0)

    assert max(history.series, key=lambda key: history.series[key]) == ("a,b", "")


def test_a_combination_that_stays_keeps_its_time() -> None:
    history = AdapterHistory()
    history.record(["a"], [], 100.0)
    history.record(["a"], [], 200.0)

    assert history.series == {("a", ""): 100.0}


def test_old_combinations_are_forgotten() -> None:
    history = AdapterHistory()
    for number in range(100):
        history.record([f"adapter-{number}"], [], float(number))

    assert len(history.series) == 8
    assert ("adapter-99", "") in history.series
