"""The fuzzer's corpus: recorded clients, and whatever has broken something once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.h2.conversations import Input, corpus, recorded
from tests.h2.mutations import mutated
from tests.h2.playing import play, without_logs

INPUTS = 200


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with without_logs():
        yield


@pytest.mark.parametrize("given", corpus().values(), ids=corpus().keys())
@pytest.mark.parametrize("schedule", range(3))
def test_nothing_in_the_corpus_breaks_anything(given: Input, schedule: int) -> None:
    play(given._replace(schedule=given.schedule + schedule))


@pytest.mark.parametrize("part", range(4))
def test_what_no_client_would_say_breaks_nothing(part: int) -> None:
    conversations = recorded()
    for number in range(part, INPUTS, 4):
        play(mutated(conversations, number, "fast tier"))


def test_an_input_is_the_same_for_the_same_seed() -> None:
    conversations = recorded()
    one, again = [[mutated(conversations, n, "seed") for n in range(20)] for _ in range(2)]
    other = [mutated(conversations, n, "other seed") for n in range(20)]
    assert one == again != other
