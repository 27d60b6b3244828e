"""Makes conversations that no client would have, out of those that clients had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from epp.transport.native.frames import (
    CONTINUATION,
    DATA,
    DEFAULT_FRAME_BYTES,
    END_HEADERS,
    GOAWAY,
    HEADER_BYTES,
    HEADERS,
    LARGEST_STREAM,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
)
from tests.h2.conversations import Input, Said

Frames = list[Said]
_NUMBERS = (0, 1, 100, 16_383, 16_384, 65_535, 65_536, 2**24 - 1, 2**31 - 1, 2**31, 2**32 - 1)
_BLOCKS = (
    b"\x82\x86\x84",
    b"\x20\x20\x20",
    b"\x3f\xe1\xff\xff\xff\x7f",
    b"\x3f\xe1\x1f",
    b"\xbe",
    b"\xff\xff\xff\xff\xff\xff\x7f",
    b"\x40\x01a\x7f\x80\xff\xff\x03",
    b"\x40\x01a\x7f\xe1\x1e" + b"v" * 4000 + b"\xbe" * 200,
    b"\x00\x03foo\x83\xff\xff\xff",
    b"\x90" * 2000,
)
_MOST_REPEATS = 3000
_MOST_BYTES = 1 << 20


def mutated(conversations: Sequence[Frames], number: int, seed: str) -> Input:
    """Input number so and so; the same for the same seed."""
    random = Random(f"{seed}:{number}")
    frames = list(random.choice(conversations))
    if random.random() < 0.3:
        other = random.choice(conversations)
        frames = frames[: random.randrange(len(frames) + 1)] + list(
            other[random.randrange(len(other)) :]
        )
    for _ in range(random.choice((1, 1, 2, 3, 5, 10))):
        random.choice(_MUTATIONS)(frames, random)
    content = _bytes(frames, random)
    return Input(content[:_MOST_BYTES], random.randrange(1 << 32))


def _bytes(frames: Frames, random: Random) -> bytes:
    content = bytearray(b"" if random.random() < 0.01 else PREFACE)
    content += b"".join(each.encoded for each in frames)
    if random.random() < 0.15:
        _garble(content, random)
    if random.random() < 0.1:
        del content[random.randrange(len(content) + 1) :]
    return bytes(content)


def _garble(content: bytearray, random: Random) -> None:
    at = random.randrange(len(content) + 1)
    match random.randrange(3):
        case 0:
            content[at:at] = random.randbytes(random.choice((1, 9, 100, 20_000)))
        case 1:
            content[at : at + random.choice((1, 4, HEADER_BYTES, 1000))] = b""
        case _:
            for _ in range(random.choice((1, 5, 50))):
                if content:
                    content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def _spot(frames: Frames, random: Random) -> int:
    return random.randrange(len(frames)) if frames else -1


def _drop(frames: Frames, random: Random) -> None:
    at = _spot(frames, random)
    del frames[at : at + random.choice((1, 1, 2, 5))]


def _repeat(frames: Frames, random: Random) -> None:
    at = _spot(frames, random)
    count = random.choice((1, 2, 10, 100, _MOST_REPEATS))
    if frames and len(frames[at].payload) * count < _MOST_BYTES:
        frames[at:at] = [frames[at]] * count


def _swap(frames: Frames, random: Random) -> None:
    one, other = _spot(frames, random), _spot(frames, random)
    if frames:
        frames[one], frames[other] = frames[other], frames[one]


def _move(frames: Frames, random: Random) -> None:
    if frames:
        frames.insert(_spot(frames, random), frames.pop(_spot(frames, random)))


def _change(frames: Frames, random: Random) -> None:
    at = _spot(frames, random)
    if not frames:
        return
    one = frames[at]
    match random.randrange(5):
        case 0:
            frames[at] = one._replace(kind=random.randrange(12))
        case 1:
            frames[at] = one._replace(flags=one.flags ^ 1 << random.randrange(8))
        case 2:
            frames[at] = one._replace(stream_id=_stream_id(frames, random))
        case 3:
            frames[at] = one._replace(payload=one.payload[: random.randrange(10)])
        case _:
            frames[at] = one._replace(payload=_flipped(one.payload, random))


def _flipped(payload: bytes, random: Random) -> bytes:
    changed = bytearray(payload)
    for _ in range(random.choice((1, 2, 8))):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _stream_id(frames: Frames, random: Random) -> int:
    known = frames[_spot(frames, random)].stream_id if frames else 1
    return random.choice((known, known, known + 2, known + 1, 0, 1, 2, LARGEST_STREAM, 1001))


def _insert(frames: Frames, random: Random) -> None:
    frames.insert(_spot(frames, random) + 1, _invented(frames, random))


def _invented(frames: Frames, random: Random) -> Said:
    stream_id = _stream_id(frames, random)
    number = random.choice(_NUMBERS)
    match random.randrange(9):
        case 0:
            setting = random.choice((1, 2, 3, 4, 5, 6, 0xBEEF)).to_bytes(2, "big")
            return Said(SETTINGS, random.choice((0, 0, 1)), 0, setting + number.to_bytes(4, "big"))
        case 1:
            to_all = random.choice((0, stream_id))
            return Said(WINDOW_UPDATE, 0, to_all, number.to_bytes(4, "big"))
        case 2:
            return Said(RST_STREAM, 0, stream_id, random.randrange(20).to_bytes(4, "big"))
        case 3:
            return Said(PING, random.randrange(2), 0, random.randbytes(8))
        case 4:
            return Said(GOAWAY, 0, 0, number.to_bytes(4, "big") + bytes(random.choice((4, 3, 90))))
        case 5:
            payload = (stream_id | random.choice((0, 1 << 31))).to_bytes(4, "big") + b"\x10"
            return Said(PRIORITY, 0, stream_id, payload)
        case 6:
            flags = random.choice((0, 1, END_HEADERS, 5, 0x24, 0xD, 0x2D))
            kind = random.choice((HEADERS, HEADERS, CONTINUATION, PUSH_PROMISE))
            return Said(kind, flags, stream_id, random.choice(_BLOCKS))
        case 7:
            size = random.choice((0, 1, 5, 100, 16_384, 16_385))
            return Said(DATA, random.choice((0, 1, PADDED)), stream_id, random.randbytes(size))
        case _:
            payload = random.randbytes(random.choice((0, 3, 5, 8, 300)))
            return Said(random.randrange(256), random.randrange(256), stream_id, payload)


def _split_block(frames: Frames, random: Random) -> None:
    """HEADERS become HEADERS and CONTINUATIONs."""
    places = [
        at for at, one in enumerate(frames) if one.kind == HEADERS and one.flags & END_HEADERS
    ]
    if not places:
        return
    at = random.choice(places)
    one = frames[at]
    size = random.choice((1, 10, 40))
    pieces = [one.payload[start : start + size] for start in range(0, len(one.payload), size)]
    pieces = pieces or [b""]
    parts = [Said(CONTINUATION, 0, one.stream_id, piece) for piece in pieces[1:]]
    parts.insert(0, one._replace(flags=one.flags & ~END_HEADERS, payload=pieces[0]))
    if random.random() < 0.8:
        parts[-1] = parts[-1]._replace(flags=parts[-1].flags | END_HEADERS)
    frames[at : at + 1] = parts


def _pad(frames: Frames, random: Random) -> None:
    at = _spot(frames, random)
    if not frames or frames[at].kind not in (DATA, HEADERS):
        return
    one = frames[at]
    padding = random.choice((0, 1, 255))
    payload = bytes((padding,)) + one.payload + bytes(random.choice((padding, 0)))
    flags = one.flags | PADDED
    if one.kind == HEADERS and random.random() < 0.3:
        flags |= WITH_PRIORITY
        payload = payload[:1] + bytes(5) + payload[1:]
    if len(payload) <= DEFAULT_FRAME_BYTES:
        frames[at] = one._replace(flags=flags, payload=payload)


def _renumber(frames: Frames, random: Random) -> None:
    """The conversation once more on other streams, mixed with itself."""
    shift = 2 * random.randrange(1, 60)
    copies = [
        one._replace(stream_id=one.stream_id + shift) for one in frames if 0 < one.stream_id < 1e6
    ]
    for one in copies[:200]:
        frames.insert(random.randrange(len(frames) // 2, len(frames) + 1), one)


def _open_many(frames: Frames, random: Random) -> None:
    heads = [one for one in frames if one.kind == HEADERS]
    if not heads:
        return
    head = random.choice(heads)
    first = max(one.stream_id for one in frames) + 2
    for number in range(random.choice((5, 60, 300))):
        frames.append(head._replace(stream_id=min(first + 2 * number, LARGEST_STREAM)))
        if random.random() < 0.5:
            frames.append(Said(RST_STREAM, 0, frames[-1].stream_id, bytes(4)))


_MUTATIONS: Sequence[Callable[[Frames, Random], None]] = (
    _drop,
    _repeat,
    _swap,
    _move,
    _change,
    _change,
    _insert,
    _insert,
    _insert,
    _split_block,
    _pad,
    _renumber,
    _open_many,
)
