from __future__ import annotations

from epp.diagnosis.doctor_findings import fault, listing, ok, skipped, warning
from epp.diagnosis.doctor_table import doctor_table


def test_findings_are_told_with_what_to_do_and_counted() -> None:
    table = doctor_table([ok("a", "fine"), fault("longer", "broken", "mend it"), skipped("b", "-")])

    assert table == (
        "OK       a       fine\n"
        "FAULT    longer  broken\n"
        "                 -> mend it\n"
        "SKIPPED  b       -\n"
        "\n"
        "ok: 1, warning: 0, fault: 1, skipped: 1\n"
    )


def test_what_a_server_says_can_not_write_to_the_terminal() -> None:
    table = doctor_table([warning("a", "x\x1b[2Jy", "")])

    assert "\x1b" not in table


def test_long_texts_are_wrapped_and_lines_stay_lines() -> None:
    table = doctor_table([fault("a", "first\n  second " + "word " * 60, "")])

    lines = table.splitlines()
    assert lines[0] == "FAULT    a  first"
    assert max(map(len, lines)) <= 110


def test_lists_are_cut() -> None:
    assert listing("abcdefg") == "a, b, c, d, e and 2 more"
    assert listing(()) == ""
