from __future__ import annotations

import pytest

from epp.transport.native.frames import ConnectionFault, StreamFault
from epp.transport.native.past_streams import PastStreams


def is_ignored(past: PastStreams, stream_id: int) -> bool:
    try:
        past.check_late(stream_id, is_headers=False)
    except StreamFault:
        return False
    return True


def test_the_last_thousands_of_streams_are_remembered() -> None:
    past = PastStreams()
    for stream_id in range(1, 20_001, 2):
        past.add(stream_id)
    assert all(is_ignored(past, stream_id) for stream_id in range(11_809, 20_001, 2))
    assert not any(is_ignored(past, stream_id) for stream_id in range(1, 11_808, 2))
    assert not is_ignored(past, 20_001)


@pytest.mark.parametrize("stream_id", [0, 2, 9, 2**31 - 1])
def test_what_was_never_opened_is_idle(stream_id: int) -> None:
    past = PastStreams()
    past.last_id = 7
    with pytest.raises(ConnectionFault):
        past.check_not_idle(stream_id)
    past.check_not_idle(7)
    past.check_not_idle(1)


def test_headers_on_a_stream_that_both_ended_break_the_connection() -> None:
    past = PastStreams()
    past.last_id = 7
    past.add(3)
    past.check_late(3, is_headers=True)
    with pytest.raises(ConnectionFault):
        past.check_late(5, is_headers=True)
