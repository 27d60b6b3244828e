"""What clients said on recorded connections, as frames: the corpus of the fuzzer.

A file holds the bytes of one client. Those that broke something are named after the schedule they
were played with: `s1234-0a1b2c3d.bin`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from epp.transport.native.frames import HEADER, HEADER_BYTES, LARGEST_STREAM, PREFACE, frame

CORPUS = Path(__file__).parent / "corpus"


class Said(NamedTuple):
    """One frame of a client."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes

    @property
    def encoded(self) -> bytes:
        """As it travels."""
        return frame(self.kind, self.flags, self.stream_id, self.payload)


class Input(NamedTuple):
    """What is played to a connection, and how it is cut and timed."""

    content: bytes
    schedule: int

    @property
    def name(self) -> str:
        """Of its file."""
        digest = hashlib.sha256(self.content).hexdigest()[:12]
        return f"s{self.schedule}-{digest}.bin"


def corpus() -> dict[str, Input]:
    """Every file."""
    return {path.name: _read(path) for path in sorted(CORPUS.glob("*.bin"))}


def recorded() -> list[list[Said]]:
    """The conversations of clients that behaved."""
    return [frames_of(each.content) for name, each in corpus().items() if not name.startswith("s")]


def save(broken: Input) -> Path:
    """Keep what broke something, to be played by every run of the tests."""
    path = CORPUS / broken.name
    path.write_bytes(broken.content)
    return path


def frames_of(content: bytes) -> list[Said]:
    """The whole frames behind the preface."""
    assert content.startswith(PREFACE)
    frames = []
    at = len(PREFACE)
    while len(content) - at >= HEADER_BYTES:
        high, low, kind, flags, stream_id = HEADER.unpack_from(content, at)
        start = at + HEADER_BYTES
        at = start + (high << 8 | low)
        frames.append(Said(kind, flags, stream_id & LARGEST_STREAM, content[start:at]))
    return frames


def _read(path: Path) -> Input:
    schedule = path.stem.partition("-")[0]
    is_broken = schedule.startswith("s") and schedule[1:].isdigit()
    return Input(path.read_bytes(), int(schedule[1:]) if is_broken else 0)
