"""Bodies in a content coding, decoded in steps and never beyond a limit (decision 23)."""

from __future__ import annotations

import importlib.util
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from io import BytesIO
from typing import Protocol

MAX_MEMBERS = 1000
"""Compressed pieces in one body; each costs more than its few bytes suggest."""

CODINGS = ("gzip", "deflate", *(("zstd",) if importlib.util.find_spec("zstandard") else ()))
"""Names in `content-encoding` that can be decoded; zstd if its package is installed."""

_INPUT_STEP = 64 * 1024
_OUTPUT_STEP = 1024 * 1024
# A few bytes of zstd can stand for a block of 128 KiB, and its decoder takes no output limit.
_ZSTD_INPUT_STEP = 256
_ZSTD_MAX_WINDOW = 8 * 1024 * 1024
# Stops at the first other byte: a look at the rest after each of many members must not read it all.
_PADDING = re.compile(rb"\0*+")


class CorruptBodyError(Exception):
    """The data are not what their coding says, or end too early."""


class BodyLimitError(Exception):
    """The data are longer than allowed when decoded."""


class _Member(Protocol):
    """The decoder of one compressed piece."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def feed(self, data: bytes) -> Iterator[bytes]: ...


class _ZlibMember:
    def __init__(self, window_bits: int) -> None:
        self._decoder = zlib.decompressobj(window_bits)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def feed(self, data: bytes) -> Iterator[bytes]:
        decoder = self._decoder
        while True:
            try:
                piece = decoder.decompress(data, _OUTPUT_STEP)
            except zlib.error as error:
                raise CorruptBodyError from error
            yield piece
            data = decoder.unconsumed_tail
            if not data and len(piece) < _OUTPUT_STEP:
                return


class _ZstdMember:
    def __init__(self) -> None:
        self._zstandard = importlib.import_module("zstandard")
        self._decoder = self._zstandard.ZstdDecompressor(
            max_window_size=_ZSTD_MAX_WINDOW
        ).decompressobj()

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decoder.unused_data)

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            yield self._decoder.decompress(data)
        except self._zstandard.ZstdError as error:
            raise CorruptBodyError from error


def decompress(coding: str, body: bytes, limit: int) -> Generator[None, None, bytes]:
    """Gives the decoded body; raises `BodyLimitError` if it is longer than `limit`.

    Yields after every MiB or so, for others to have their turn.
    """
    decoded = BytesIO()
    next_turn = _OUTPUT_STEP
    for piece in _pieces(coding, body):
        if decoded.tell() + len(piece) > limit:
            raise BodyLimitError
        decoded.write(piece)
        if decoded.tell() >= next_turn:
            next_turn = decoded.tell() + _OUTPUT_STEP
            yield
    return decoded.getvalue()


def _pieces(coding: str, body: bytes) -> Iterator[bytes]:
    new_member, step = _member_factory(coding, body)
    position = 0
    for _ in range(MAX_MEMBERS):
        member = new_member()
        while not member.eof:
            data = body[position : position + step]
            if not data:
                raise CorruptBodyError
            position += len(data)
            yield from member.feed(data)
        position -= len(member.unused_data)
        if _PADDING.fullmatch(body, position):
            return
    raise CorruptBodyError


def _member_factory(coding: str, body: bytes) -> tuple[Callable[[], _Member], int]:
    if coding == "zstd":
        return _ZstdMember, _ZSTD_INPUT_STEP
    if coding == "gzip":
        return partial(_ZlibMember, 16 + zlib.MAX_WBITS), _INPUT_STEP
    # Many senders of "deflate" leave out the zlib wrapping that the name stands for.
    is_wrapped = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    return partial(_ZlibMember, zlib.MAX_WBITS if is_wrapped else -zlib.MAX_WBITS), _INPUT_STEP
