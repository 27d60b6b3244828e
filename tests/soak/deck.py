"""What is done to a picker, and how often."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.soak import departures, requests
from tests.soak.gateway import STAGES, Way

DECK: dict[str, tuple[Way, int]] = {
    "answered": (requests.answered, 600),
    "streamed": (requests.streamed, 60),
    "4 MiB": (requests.large_body, 20),
    "gzip": (requests.compressed_body, 40),
    "inflated": (requests.inflated_body, 10),
    "no body": (requests.without_body, 20),
    "malformed": (requests.malformed, 40),
    "declared over the limit": (requests.declared_too_large, 10),
    "over the limit": (requests.too_large, 1),
    "stops in body": (requests.stops_in_body, 10),
    "cancelled at the pick": (departures.cancelled_while_picked, 20),
    "closes its connection": (departures.connection_closed, 10),
    "connection aborted": (departures.connection_broken(reset=False), 10),
    "connection reset": (departures.connection_broken(reset=True), 10),
    "reads slowly": (departures.read_slowly, 10),
    "stops reading": (departures.stopped_reading, 10),
    "silent after pick": (departures.silent_after_pick, 10),
    "no HTTP/2": (departures.no_http2, 10),
    "garbage first": (departures.garbled(-1), 10),
    **{f"cancelled {name}": (departures.cancelled(at), 20) for at, name in enumerate(STAGES)},
    **{f"half-closed {name}": (departures.half_closed(at), 10) for at, name in enumerate(STAGES)},
    **{f"garbage {name}": (departures.garbled(at), 10) for at, name in enumerate(STAGES)},
}
"""Ways by name, each so many times in a thousand or so streams."""


def shuffled(rng: random.Random) -> Iterator[str]:
    """Names of ways for ever: each once, so that a warm-up knows them all, and then as often as
    the deck says, in an order that chance makes."""
    yield from DECK
    cards = [name for name, (_, copies) in DECK.items() for _ in range(copies)]
    while True:
        rng.shuffle(cards)
        yield from cards
