from __future__ import annotations

import io

from epp.standalone.held_stream import MOST_HELD, HeldStream


def test_what_was_written_appears_in_order_once_it_is_released() -> None:
    behind = io.StringIO()
    held = HeldStream(behind)
    print("first", file=held, flush=True)
    assert behind.getvalue() == ""

    held.release()
    held.release()
    print("second", file=held)

    assert behind.getvalue() == "first\nsecond\n"


def test_of_very_many_lines_the_last_are_kept() -> None:
    behind = io.StringIO()
    held = HeldStream(behind)
    for number in range(MOST_HELD + 5):
        held.write(f"{number}\n")

    held.release()

    lines = behind.getvalue().splitlines()
    assert (len(lines), lines[0]) == (MOST_HELD, "5")
