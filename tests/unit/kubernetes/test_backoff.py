from __future__ import annotations

import random

from epp.kubernetes.backoff import Backoff
from tests.fakes.clock import Clock


def backoff_of(clock: Clock) -> Backoff:
    return Backoff(first=1.0, longest=8.0, reset_after=120.0, rng=random.Random(1), now=clock)


def test_pauses_double_up_to_the_longest_and_no_two_clients_keep_in_step() -> None:
    pauses = [backoff.failed() for backoff in [backoff_of(Clock())] for _ in range(6)]

    for pause, base in zip(pauses, (1, 2, 4, 8, 8, 8), strict=True):
        assert base <= pause <= 2 * base
    assert len(set(pauses)) == len(pauses)


def test_the_server_may_ask_for_more() -> None:
    backoff = backoff_of(Clock())

    assert 5 <= backoff.failed(at_least=5) <= 10
    assert 2 <= backoff.failed(at_least=1) <= 4


def test_failures_of_long_ago_are_forgotten() -> None:
    clock = Clock()
    backoff = backoff_of(clock)
    for _ in range(4):
        clock.now += backoff.failed()

    clock.now += 119
    assert backoff.failed() >= 8
    clock.now += 16 + 121
    assert backoff.failed() <= 2
