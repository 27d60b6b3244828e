from __future__ import annotations

import time

from tests.benchmarks.sampler import Sampler, name_of


def test_who_uses_the_time_is_found_running_and_who_called_it_above() -> None:
    def busy() -> int:
        return sum(number * number for number in range(1_000))

    def caller() -> None:
        started = time.process_time()
        while sampler.samples.count < 20 and time.process_time() - started < 10:
            busy()

    sampler = Sampler()
    sampler.start()
    try:
        caller()
    finally:
        sampler.stop()

    samples = sampler.samples
    assert samples.count >= 20
    assert sum(samples.own.values()) == samples.count
    assert samples.total[name_of(caller.__code__)] > samples.count / 2
    assert samples.own[name_of(caller.__code__)] < samples.count / 2
