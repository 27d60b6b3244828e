"""The lines of one family on the pages of one endpoint, looked for where they were last time."""

from __future__ import annotations

from epp.plugins.extractors.page_scanner import first_sample, lines_from

_NEAR = 256
"""Bytes by which a family may have moved: numbers before it become longer, series come and go."""

_LONGEST_ANCHOR = 256


class FamilyLines:
    """Finds the lines of a family; remembers the comment they follow, and where that was.

    To search a whole page for each of five families costs as much as all other reading. The
    comment with the type is there once, before the first line, so what follows it is the family
    wherever the page begins and ends.
    """

    __slots__ = ("_anchor", "_at", "_needle", "_skip")

    def __init__(self, needle: bytes) -> None:
        self._needle = needle
        self._anchor = b""
        self._at = 0
        self._skip = 0

    def on(self, page: bytes) -> bytes:
        """The lines on this page, each begun by its newline; empty: there are none."""
        anchor, at = self._anchor, self._at
        if anchor:
            if not page.startswith(anchor, at):
                at = page.find(anchor, max(0, at - _NEAR), at + len(anchor) + _NEAR)
            if at >= 0:
                self._at = at
                return lines_from(page, at + self._skip, self._needle)
        return self._searched(page)

    def _searched(self, page: bytes) -> bytes:
        needle = self._needle
        name = needle[1:]
        # Some are on no page of a server. Here rfind sees that in a third of the time of find.
        if page.rfind(name) < 0:
            return b""
        if page.startswith(name):
            page = b"\n" + page
        start = first_sample(page, needle)
        if start < 0:
            return b""
        comment = page.rfind(b"\n", max(0, start - _LONGEST_ANCHOR), start)
        if comment >= 0 and page.startswith(b"\n# TYPE %b " % name, comment):
            self._anchor = page[comment : start + len(needle) + 1]
            self._at = comment
            self._skip = start - comment
        return lines_from(page, start, needle)
