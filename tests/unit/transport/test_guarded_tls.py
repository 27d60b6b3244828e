"""What a TLS server reads, and how much of nothing it puts up with; both loops' ways of reading."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.transport.certificates import CertificatePair
from epp.transport.guarded_tls import MAX_EMPTY_BYTES, MAX_RECORDS, GuardedContext, read_in_turns
from epp.transport.native.tls import load_into
from tests.fakes.certificates import new_pair, untrusting
from tests.fakes.transport.key_updates import KeyUpdates

PAIR = new_pair()


class Connected:
    """Two ends of a connection after their handshake, and what is between them."""

    def __init__(self, key_log: Path | None = None, pair: CertificatePair = PAIR) -> None:
        context = GuardedContext(ssl.PROTOCOL_TLS_SERVER)
        load_into(context, pair)
        theirs = untrusting(None)
        if key_log is not None:
            theirs.keylog_filename = str(key_log)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._to_client, self.of_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.client = theirs.wrap_bio(self._to_client, self.of_client)
        for _ in range(2):
            for end in (self.client, self.server):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
                self.incoming.write(self.of_client.read())
                self._to_client.write(self.outgoing.read())
        self.server.do_handshake()

    def sent(self, content: bytes) -> bytes:
        """What the client sends for it."""
        self.client.write(content)
        return self.of_client.read()


def read_until_told_to_wait(connected: Connected) -> Iterator[bytes]:
    """As asyncio does."""
    with suppress(ssl.SSLWantReadError):
        while part := connected.server.read(256 * 1024):
            yield part


def read_while_there_is_more(connected: Connected) -> Iterator[bytes]:
    """As uvloop does."""
    with suppress(ssl.SSLWantReadError):
        while connected.incoming.pending or connected.server.pending():
            yield connected.server.read(256 * 1024)


def read_into_small_buffers(connected: Connected) -> Iterator[bytes]:
    """As both do for protocols that bring their own."""
    buffer = bytearray(1000)
    with suppress(ssl.SSLWantReadError):
        while count := connected.server.read(len(buffer), buffer):
            yield bytes(buffer[: int(count)])


READING = (read_until_told_to_wait, read_while_there_is_more, read_into_small_buffers)


@given(
    sizes=st.lists(st.sampled_from((1, 9, 500, 16_384, 70_000)), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 40_000), min_size=1, max_size=8),
    reading=st.sampled_from(READING),
)
def test_everything_that_came_is_read_however_it_was_cut(
    sizes: list[int],
    cuts: list[int],
    reading: Callable[[Connected], Iterator[bytes]],
) -> None:
    connected = Connected()
    content = [bytes([index]) * size for index, size in enumerate(sizes)]
    raw = b"".join(connected.sent(each) for each in content)
    read = b""

    while raw:
        cut = cuts[len(raw) % len(cuts)]
        connected.incoming.write(raw[:cut])
        raw = raw[cut:]
        read += b"".join(reading(connected))

    assert read == b"".join(content)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("reading", READING)
def test_new_keys_without_end_end_the_connection(
    reading: Callable[[Connected], Iterator[bytes]], asks: bool, tmp_path: Path
) -> None:
    connected = Connected(tmp_path / "keys")
    updates = KeyUpdates(tmp_path / "keys")
    raw = b"".join(updates.next(asks=asks) for _ in range(2_000))
    connected.incoming.write(raw)

    with pytest.raises(ssl.SSLError, match="bring nothing"):
        list(reading(connected))

    assert connected.incoming.pending > len(raw) - 2 * MAX_EMPTY_BYTES, "the rest is not looked at"


def test_new_keys_now_and_then_do_no_harm(tmp_path: Path) -> None:
    connected = Connected(tmp_path / "keys")
    updates = KeyUpdates(tmp_path / "keys")

    for _ in range(100):
        connected.incoming.write(updates.next(asks=True))
        assert list(read_while_there_is_more(connected)) == []

    assert connected.outgoing.pending > 0, "the server changes its keys, too"


@pytest.mark.parametrize("reading", READING)
def test_others_have_their_turn_between_many_short_records(
    reading: Callable[[Connected], Iterator[bytes]],
) -> None:
    connected = Connected()
    turns: list[None] = []
    read_in_turns(connected.server, lambda: turns.append(None))
    content = bytes(range(250)) * 10
    connected.incoming.write(b"".join(connected.sent(bytes([byte])) for byte in content))

    first = b"".join(reading(connected))
    second = b"".join(reading(connected))
    rest = b"".join(reading(connected))

    assert (len(first), len(second), len(turns)) == (MAX_RECORDS, MAX_RECORDS, 2)
    assert first + second + rest == content


def test_records_that_come_one_after_the_other_are_not_many_at_once() -> None:
    connected = Connected()
    for reading in (read_until_told_to_wait, read_while_there_is_more):
        for _ in range(MAX_RECORDS + 1):
            connected.incoming.write(connected.sent(b"a"))
            assert list(reading(connected)) == [b"a"]


def test_where_nobody_gives_way_too_many_records_at_once_are_an_error() -> None:
    connected = Connected()
    connected.incoming.write(b"".join(connected.sent(b"a") for _ in range(MAX_RECORDS + 1)))

    with pytest.raises(ssl.SSLError, match="at once"):
        list(read_while_there_is_more(connected))


def test_the_end_of_a_connection_is_read_behind_all_that_came() -> None:
    connected = Connected()
    connected.incoming.write(connected.sent(b"last words"))
    with suppress(ssl.SSLWantReadError):
        connected.client.unwrap()
    connected.incoming.write(connected.of_client.read())

    assert list(read_until_told_to_wait(connected)) == [b"last words"]
    connected.server.unwrap()
