"""The examples of docs/library.md run, and its table names everything there is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from epp.library import Pick, Picker
from tests.fakes.documented_steps import blocks_of

PAGE = Path(__file__).parents[3] / "docs/library.md"
EXAMPLES = [block.text for block in blocks_of(PAGE) if block.kind == "python"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Runs an example as a module, which its classes belong to."""
    module = ModuleType("library_example")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return lambda example: exec(compile(example, str(PAGE), "exec"), vars(module))


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs(example: str, run: Callable[[str], None]) -> None:
    run(example)


def test_the_first_example_prints_what_the_page_says(
    run: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    run(EXAMPLES[0])

    (told,) = re.findall(r"It prints `(.*)`\.", PAGE.read_text())
    assert capsys.readouterr().out == f"{told}\n"


@pytest.mark.parametrize(("kind", "variable"), [(Picker, "picker"), (Pick, "pick")])
def test_everything_public_is_in_the_table(kind: type, variable: str) -> None:
    public = {name for name in vars(kind) if not name.startswith("_")}
    told = set(re.findall(rf"`(?:{variable}|{kind.__name__})\.(\w+)", PAGE.read_text()))

    assert told == public
