"""Texts as they arrive: in pieces, cut anywhere."""

from __future__ import annotations

from hypothesis import strategies as st


@st.composite
def cuts(draw: st.DrawFn, text: bytes) -> list[bytes]:
    """`text` in pieces, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[i:j] for i, j in zip([0, *places], [*places, len(text)], strict=True)]
