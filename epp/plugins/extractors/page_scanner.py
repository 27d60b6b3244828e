"""Sample lines of single families, found on a page of metrics without parsing the rest.

Anything that exporters write is let through: blanks, timestamps, exemplars, CRLF, a last line
without a newline, families without a TYPE, OpenMetrics. What can't be read is not a number (NaN).
"""

from __future__ import annotations

import math
import re
from itertools import islice

MAX_SERIES = 4096
"""Sample lines that are read of one family: engines keep one for each set of LoRA adapters."""

MAX_LABEL_SET = 1024 * 1024
"""Bytes of one label set that are read: some name thousands of LoRA adapters."""

MAX_LABELS = 1024
"""Labels of a label set that are read."""

MAX_GAP = 256
"""Bytes of other lines (blank, comments, other families) between two lines of a family.

The format has families in one piece; looking further would cost a search of the whole page.
"""

Series = tuple[bytes, float, float]
"""Label set as written, value, timestamp (0: none)."""

# As a number it is looked for in a quarter of the time.
_HASH = ord("#")
_AFTER_NAME = (b"{", b" ", b"\t")
_QUOTED = rb'"(?:[^"\\]|\\.)*+"'
_LABEL_SET = re.compile(rb'\{(?:[^"}]|%b)*+\}' % _QUOTED, re.DOTALL)
_LABEL = re.compile(rb"(?<!\w)([A-Za-z_]\w*+)[ \t]*+=[ \t]*+(%b)" % _QUOTED, re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_LINE = re.compile(
    rb"^(?:# (?:HELP|TYPE|UNIT) |[A-Za-z_:][\w:]*+(?:\{[^\n]*\})?[ \t]++[-+]?(?:\d|\.\d|NaN|Inf))",
    re.MULTILINE,
)


def needle_of(name: bytes) -> bytes:
    """What a sample line of the family `name` begins with; longer names begin so too."""
    return b"\n" + name


def sample_lines(page: bytes, needle: bytes) -> bytes:
    """The lines of a family, each begun by its newline; empty: there are none."""
    if page.startswith(needle[1:]):
        page = b"\n" + page
    start = first_sample(page, needle)
    return lines_from(page, start, needle) if start >= 0 else b""


def first_sample(page: bytes, needle: bytes) -> int:
    """Where the first line of a family begins, with its newline; negative: nowhere."""
    size = len(needle)
    start = page.find(needle)
    for _ in range(MAX_SERIES):
        if start < 0 or page[start + size : start + size + 1] in _AFTER_NAME:
            break
        start = page.find(needle, start + size)
    return start


def lines_from(page: bytes, start: int, needle: bytes) -> bytes:
    """The lines of a family, of which the first begins at `start`."""
    size = len(needle)
    end = start
    for _ in range(MAX_SERIES):
        end = page.find(b"\n", end + size)
        if end < 0:
            return page[start:]
        if not page.startswith(needle, end):
            following = page.find(needle, end, end + MAX_GAP)
            if following < 0:
                break
            end = following
    return page[start:end]


def has_sample(lines: bytes, needle: bytes) -> bool:
    """Whether any of the lines is of the family, rather than of one with a longer name."""
    return any(needle + after in lines for after in _AFTER_NAME)


def series_of(lines: bytes, needle: bytes) -> list[Series]:
    """The samples in what `sample_lines` found."""
    texts = lines.split(needle)
    # Nearly all lines are a label set and a number, which takes half the time of anything else.
    is_usual = _HASH not in lines and lines.count(b"\n") == len(texts) - 1
    read = _usual_series if is_usual else _series
    if len(texts) == 2:
        return [read(texts[1])]
    return [read(text) for text in texts if text[:1] in _AFTER_NAME]


def _usual_series(text: bytes) -> Series:
    """Read what follows the name on a line."""
    close = text.rfind(b"}") + 1
    number = text[close:]
    try:
        return text[:close], math.nan if b"_" in number else float(number), 0.0
    except ValueError:
        return _series(text)


def _series(text: bytes) -> Series:
    """The same with a timestamp, with an exemplar, or with lines that don't belong there."""
    end = text.find(b"\n")
    if end >= 0:
        text = text[:end]
    found = _LABEL_SET.match(text)
    close = found.end() if found else 0
    words = text[close:].split()
    try:
        has_timestamp = len(words) > 1 and words[1] != b"#"
        return text[:close], _float(words[0]), _float(words[1]) if has_timestamp else 0.0
    except (ValueError, IndexError):
        return text[:close], math.nan, 0.0


def _float(text: bytes) -> float:
    # Python reads 1_0 as 10.
    return math.nan if b"_" in text else float(text)


def labels_of(label_set: bytes) -> dict[bytes, bytes]:
    """Names and values of a label set, as far as it is one that an engine would write."""
    if len(label_set) <= MAX_LABELS:
        return {name: _unquoted(value) for name, value in _LABEL.findall(label_set)}
    found = islice(_LABEL.finditer(label_set, 0, MAX_LABEL_SET), MAX_LABELS)
    return {label[1]: _unquoted(label[2]) for label in found}


def _unquoted(value: bytes) -> bytes:
    if b"\\" not in value:
        return value[1:-1]
    return _ESCAPE.sub(lambda found: b"\n" if found[1] == b"n" else found[1], value[1:-1])


def is_exposition(page: bytes) -> bool:
    """Whether a page can be one of metrics at all, rather than HTML, JSON or binary data."""
    return page[:64].lstrip()[:1] not in (b"<", b"[", b"{") and _LINE.search(page) is not None
