from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epp.cli.output import complain, print_json, print_page, print_table
from epp.framework.errors import ConfigError


@contextmanager
def stdout_at(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with open(descriptor, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        yield


def test_a_reader_that_has_seen_enough_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    with stdout_at(writing, monkeypatch):
        print_page("page\n" * 100_000)
        print_page("and more\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_disk_that_is_full_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        stdout_at(os.open("/dev/full", os.O_WRONLY), monkeypatch),
        pytest.raises(ConfigError, match="the output can't be written: No space left on device"),
    ):
        print_page("page\n")


def test_to_have_no_reader_at_all_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)

    print_page("page\n")


def test_characters_that_the_terminal_does_not_have_are_escaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))

    print_page("modèle 中\n")

    assert written.getvalue() == b"mod\\xe8le \\u4e2d\n"


def test_problems_are_told_without_the_terminal_escapes_they_quote(
    capsys: pytest.CaptureFixture[str],
) -> None:
    complain("epp test", "one \x1b[31m\nmore \u202e", "two")

    assert capsys.readouterr().err == "epp test: one \\x1b[31m\nmore \\u202e\nepp test: two\n"


def test_people_are_shown_no_terminal_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("one \x1b[31m\ntwo \x9b31m\n")

    assert capsys.readouterr().out == "one \\x1b[31m\ntwo \\x9b31m\n"


def test_programs_read_what_no_terminal_understands(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"model": "é \x1b[31m \x9b31m \u202e \U000e0041", "list": [1, 2]}

    print_json(document)

    output = capsys.readouterr().out
    assert json.loads(output) == document
    assert output.startswith('{\n  "model": "é \\u001b[31m \\u009b31m \\u202e \\udb40\\udc41"')
