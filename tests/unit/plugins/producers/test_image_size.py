"""Sizes read out of the first bytes of images."""

from __future__ import annotations

import base64
import json
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.plugins.producers.image_size import MAX_JPEG_SEGMENTS, MAX_JPEG_TEXT, image_size


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\0"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\xf7\0\0"


def webp(kind: bytes, chunk: bytes) -> bytes:
    content = b"WEBP" + kind + struct.pack("<I", len(chunk)) + chunk
    return b"RIFF" + struct.pack("<I", len(content)) + content


def webp_lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\x30\x01\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + bytes(8))


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", width - 1 | height - 1 << 14) + bytes(8))


def webp_extended(width: int, height: int) -> bytes:
    sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return webp(b"VP8X", b"\x10\0\0\0" + sizes + bytes(8))


def segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def jpeg(width: int, height: int, before: bytes = b"", marker: int = 0xC0) -> bytes:
    frame = segment(marker, struct.pack(">BHHB", 8, height, width, 3) + bytes(9))
    tables = segment(0xC4, bytes(20)) + segment(0xDB, bytes(64))
    return b"\xff\xd8" + segment(0xE0, b"JFIF\0" + bytes(9)) + before + tables + frame


FORMATS = [png, gif, webp_lossy, webp_lossless, webp_extended, jpeg]


def url(image: bytes) -> bytes:
    return b"data:image/x;base64," + base64.b64encode(image)


@pytest.mark.parametrize(
    ("beginning", "most"),
    [(png(640, 480), 4096), (b"\0\0\0", 4096), (jpeg(640, 480), 3 * MAX_JPEG_TEXT)],
    ids=["png", "unknown", "jpeg"],
)
def test_of_a_large_image_only_the_beginning_is_decoded(beginning: bytes, most: int) -> None:
    """Pitfall 18."""
    content = memoryview(url(beginning + bytes(8_000_000)))
    tracemalloc.start()
    try:
        image_size(content)
        _, most_at_once = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most_at_once < most


@pytest.mark.parametrize("image", FORMATS)
def test_sizes_of_all_formats_are_read(image) -> None:  # type: ignore[no-untyped-def] # a factory
    content = image(1200, 34) + bytes(1000)

    assert image_size(url(content)) == (1200, 34)
    assert image_size(memoryview(base64.b64encode(content))) == (1200, 34)


@pytest.mark.parametrize(
    "before",
    [
        segment(0xE1, bytes(60_000)) + segment(0xE2, bytes(60_000)),
        b"\xff\xff\xff" + segment(0xFE, b"words")[1:],
        b"\xff\x01",
    ],
    ids=["thumbnail and profile", "fill bytes", "a marker without length"],
)
def test_the_frame_of_a_jpeg_is_found_behind_other_segments(before: bytes) -> None:
    assert image_size(url(jpeg(640, 480, before))) == (640, 480)


def test_progressive_jpegs_have_a_size_too() -> None:
    assert image_size(url(jpeg(640, 480, marker=0xC2))) == (640, 480)


def test_a_frame_that_comes_too_late_is_not_looked_for() -> None:
    before = b"".join(segment(0xE2, bytes(65_000)) for _ in range(MAX_JPEG_TEXT // 65_000))

    assert image_size(url(jpeg(640, 480, before))) is None
    assert image_size(url(jpeg(640, 480, segment(0xE2, b"") * MAX_JPEG_SEGMENTS))) is None


def test_escaped_slashes_are_slashes() -> None:
    image = png(0xFFFF, 0xFFFF)
    written = url(image).replace(b"/", b"\\/")
    assert json.loads(b'"%b"' % written) == url(image).decode()

    assert image_size(written) == (0xFFFF, 0xFFFF)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"https://images.example.com/a.png",
        b"data:image/png,abc",
        b"data:image/png;base64,",
        b"data:image/png;base64,!!!",
        b"data:image/png;base64,A",
        url(b"BM" + bytes(50)),
        url(png(0, 10)),
        url(png(10, 10)[:20]),
        url(gif(10, 10)[:8]),
        url(webp(b"ALPH", bytes(30))),
        url(jpeg(10, 10)[:30]),
        url(b"\xff\xd8\xff\xda" + bytes(50)),
    ],
)
def test_what_can_not_be_read_has_no_size(content: bytes) -> None:
    assert image_size(content) is None


@given(st.sampled_from([b"", *(image(7, 7) for image in FORMATS)]), st.binary(), st.integers(0, 60))
def test_any_bytes_have_a_size_or_none(start: bytes, noise: bytes, kept: int) -> None:
    size = image_size(url(start[:kept] + noise))

    assert size is None or min(size) > 0
    assert image_size(noise) is None or noise
