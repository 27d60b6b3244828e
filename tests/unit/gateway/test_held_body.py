"""Bodies between the gateway's hands and back."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.gateway.held_body import PIECED_BYTES, HeldBody
from epp.gateway.overload import LoadGuard, OverloadLimits
from epp.observability.metrics import Metrics


def guard_of() -> LoadGuard:
    return LoadGuard(OverloadLimits(), Metrics())


@given(st.lists(st.sampled_from([0, 1, 62_000, PIECED_BYTES]), max_size=5))
def test_what_came_in_pieces_is_joined(lengths: list[int]) -> None:
    pieces = [bytes([65 + number]) * length for number, length in enumerate(lengths)]
    held = HeldBody(guard_of())

    for piece in pieces:
        held.add(piece)

    assert held.size == sum(lengths)
    assert held.join() == b"".join(pieces)


def test_a_long_body_is_not_held_twice() -> None:
    held = HeldBody(guard_of())
    piece = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(256):
            held.add(bytes(bytearray(piece)))
        body = held.join()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body) == 256 * len(piece)
    assert peak < 1.3 * len(body)


@pytest.mark.parametrize("piece", [b"", b"a", b"ab"])
def test_a_body_in_tiny_pieces_takes_hardly_more_than_its_bytes(piece: bytes) -> None:
    held = HeldBody(guard_of())
    tracemalloc.start()
    try:
        for _ in range(50_000):
            held.add(bytes(bytearray(piece)))
        current, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert current < 1.3 * held.size + 20_000
    assert held.join() == 50_000 * piece


def test_a_body_that_came_at_once_is_not_copied() -> None:
    held = HeldBody(guard_of())
    body = b"x" * (2 * PIECED_BYTES)
    held.add(body)

    assert held.join() is body
