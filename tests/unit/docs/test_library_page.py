"""The examples of docs/library.md run, and its table names everything there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epp.library import Pick, Picker
from tests.fakes.documented_steps import blocks_of

PAGE = Path(__file__).parents[3] / "docs/library.md"
EXAMPLES = [block.text for block in blocks_of(PAGE) if block.kind == "python"]


def run(example: str) -> None:
    exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs(example: str) -> None:
    run(example)


def test_the_first_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    run(EXAMPLES[0])

    (told,) = re.findall(r"It prints `(.*)`\.", PAGE.read_text())
    assert capsys.readouterr().out == f"{told}\n"


@pytest.mark.parametrize(("kind", "variable"), [(Picker, "picker"), (Pick, "pick")])
def test_everything_public_is_in_the_table(kind: type, variable: str) -> None:
    public = {name for name in vars(kind) if not name.startswith("_")}
    told = set(re.findall(rf"`(?:{variable}|{kind.__name__})\.(\w+)", PAGE.read_text()))

    assert told == public
