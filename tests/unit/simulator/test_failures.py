from __future__ import annotations

from epp.simulator.failures import Failures, FailureSwitches, Fate


def test_a_rate_hits_its_share_of_the_requests_the_same_ones_under_the_same_seed() -> None:
    def fates(seed: int) -> list[Fate]:
        switches = FailureSwitches(Failures(status=503, rate=30), seed)
        return [switches.next_fate() for _ in range(1000)]

    hit = fates(1).count(Fate(status=503))

    assert 250 < hit < 350
    assert fates(1) == fates(1)
    assert fates(1) != fates(2)


def test_rates_0_and_100_hit_none_and_all() -> None:
    none = FailureSwitches(Failures(stall=True, rate=0), 0)
    every = FailureSwitches(Failures(stall=True), 0)

    assert {none.next_fate() for _ in range(100)} == {Fate()}
    assert {every.next_fate() for _ in range(100)} == {Fate(stall=True)}
