from __future__ import annotations

from tests.benchmarks.comparison import Case, Sample, Samples
from tests.benchmarks.comparison_tables import Family, further_chunks, paired_ratio, tables
from tests.benchmarks.contenders import Idle
from tests.benchmarks.load_generator import Load, Shape

NOTHING = Idle(cpu_seconds=0.0, seconds=1.0, scrapes=0)

SHORT, LONG = Case(shape=Shape(chunks=5)), Case(shape=Shape(chunks=105))


def sample(
    cpu_seconds: float, *, idle: Idle = NOTHING, scrapes: int = 0, picks: int = 10
) -> Sample:
    load = Load(
        requests=1000.0,
        picks=picks,
        seconds=2.0,
        pick_p50_ms=0.5,
        pick_p99_ms=2.5,
        cpu_seconds=cpu_seconds,
        own_cpu_seconds=0.1,
        rss_bytes=90_000_000,
        scrapes=scrapes,
    )
    return Sample(load, idle)


def test_scraping_is_no_price_of_requests_at_the_pace_it_goes_on() -> None:
    idle = Idle(cpu_seconds=0.3, seconds=1.0, scrapes=600)

    assert sample(1.0, idle=idle, scrapes=1000).microseconds == 500.0


def test_what_a_server_spends_idle_without_scraping_is_no_price_of_requests() -> None:
    idle = Idle(cpu_seconds=0.25, seconds=1.0, scrapes=0)

    assert sample(1.0, idle=idle).microseconds == 500.0


def test_ratios_are_those_of_rounds_not_of_medians() -> None:
    assert paired_ratio([1.0, 20.0, 3.0], [2.0, 40.0, 3.0]) == 0.5


def test_a_row_tells_medians_and_the_ratio_to_the_last_server() -> None:
    samples: Samples = {
        (SHORT, "ours"): [sample(0.1), sample(0.2), sample(0.3)],
        (SHORT, "theirs"): [sample(0.4), sample(0.4), sample(0.4)],
    }
    family = Family(name="body", title="request body", cases={"1 KB": SHORT})

    rows = tables([family], ["ours", "theirs"], samples).splitlines()

    assert rows[2] == "| 1 KB | ours | 200 | 0.50 | 0.5 | 2.5 | 500 | 0 | - | 90 |"
    assert rows[3] == "| 1 KB | theirs | 400 | 1.00 | 0.5 | 2.5 | 500 | 0 | - | 90 |"


def test_a_server_that_picked_nothing_in_time_has_no_latency() -> None:
    samples: Samples = {(SHORT, "ours"): [sample(0.1, picks=0)]}
    family = Family(name="body", title="request body", cases={"1 KB": SHORT})

    assert "| - | - | 500 |" in tables([family], ["ours"], samples)


def test_where_scraping_takes_most_of_the_time_no_price_of_requests_is_told() -> None:
    idle = Idle(cpu_seconds=0.3, seconds=1.0, scrapes=600)
    samples: Samples = {
        (SHORT, "ours"): [sample(1.0)],
        (SHORT, "theirs"): [sample(1.0, idle=idle, scrapes=1600)],
    }
    family = Family(name="body", title="request body", cases={"1 KB": SHORT})

    rows = tables([family], ["ours", "theirs"], samples).splitlines()

    assert rows[2].startswith("| 1 KB | ours | 1,000 | - |")
    assert rows[3].startswith("| 1 KB | theirs | - | - |")


def test_a_further_chunk_costs_what_long_responses_cost_more() -> None:
    samples: Samples = {
        (SHORT, "ours"): [sample(0.1)],
        (LONG, "ours"): [sample(1.1)],
        (SHORT, "theirs"): [sample(0.1)],
        (LONG, "theirs"): [sample(4.1)],
    }

    rows = further_chunks(SHORT, LONG, ["ours", "theirs"], samples).splitlines()

    assert rows[2:] == ["| ours | 10.0 | 0.25 |", "| theirs | 40.0 | 1.00 |"]
