"""Width and height of an image, read from the first bytes of its base64 text (pitfall 18)."""

from __future__ import annotations

import binascii
import struct
from typing import TypeAlias

Size: TypeAlias = "tuple[int, int]"

HEADER_TEXT = 128
"""Base64 that holds what PNG, GIF and WebP say of their size."""

MAX_JPEG_TEXT = 256 * 1024
"""Base64 in which the size of a JPEG is looked for: behind its thumbnail and colour profile."""

MAX_JPEG_SEGMENTS = 128
"""Segments in which it is looked for: a body has room for millions of empty ones."""

MAX_PREFIX = 256
"""Bytes of a `data:` URL in which its data must begin."""

_BASE64 = b"base64,"
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xDA)))


def image_size(content: bytes | memoryview) -> Size | None:
    """The size of an image in a `data:` URL, or in base64 alone; None if it can't be read."""
    start = 0
    prefix = bytes(content[:MAX_PREFIX])
    if prefix.startswith(b"data:"):
        start = prefix.find(_BASE64) + len(_BASE64)
        if start < len(_BASE64):
            return None
    header = _decoded(content[start : start + HEADER_TEXT])
    if header.startswith(b"\xff\xd8"):
        size = _jpeg_size(_decoded(content[start : start + MAX_JPEG_TEXT]))
    else:
        size = _header_size(header)
    return size if size is not None and min(size) > 0 else None


def _decoded(text: bytes | memoryview) -> bytes:
    # Long media stand as they do in JSON, where a slash may be escaped.
    text = bytes(text).replace(b"\\/", b"/")
    try:
        return binascii.a2b_base64(text[: len(text) // 4 * 4])
    except binascii.Error:
        return b""


def _header_size(header: bytes) -> Size | None:
    if header.startswith(b"\x89PNG\r\n\x1a\n") and len(header) >= 24:
        width, height = struct.unpack_from(">II", header, 16)
        return width, height
    if header.startswith((b"GIF87a", b"GIF89a")) and len(header) >= 10:
        width, height = struct.unpack_from("<HH", header, 6)
        return width, height
    if header.startswith(b"RIFF") and header[8:12] == b"WEBP" and len(header) >= 30:
        return _webp_size(header)
    return None


def _webp_size(header: bytes) -> Size | None:
    kind = header[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(header[at : at + 3], "little") for at in (24, 27))
        return width + 1, height + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", header, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = int.from_bytes(header[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


def _jpeg_size(data: bytes) -> Size | None:
    """The size in the start of frame, found by walking over the segments before it."""
    position = 2
    for _ in range(MAX_JPEG_SEGMENTS):
        if position + 9 > len(data) or data[position] != 0xFF:
            break
        marker = data[position + 1]
        if marker in _START_OF_FRAME:
            height, width = struct.unpack_from(">HH", data, position + 5)
            return width, height
        if marker == 0xFF:
            position += 1
        elif marker in _WITHOUT_LENGTH:
            position += 2
        else:
            position += 2 + max(2, int.from_bytes(data[position + 2 : position + 4], "big"))
    return None
