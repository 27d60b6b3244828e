from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.kubernetes.line_buffer import LineBuffer, LineTooLong


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b""))), st.data())
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    buffer = LineBuffer(longest=100)

    got = [
        line
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)
        for line in buffer.feed(text[start:end])
    ]

    assert got == [line for line in lines if line]


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    buffer = LineBuffer(longest=10)

    buffer.feed(b"12345\n67890")
    buffer.feed(b"12345")
    with pytest.raises(LineTooLong, match="longer than 10 bytes"):
        buffer.feed(b"6")
