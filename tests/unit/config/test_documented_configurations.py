"""Configurations that are shown to people work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epp.config.built_in import BUILT_IN
from epp.config.loader import load_config
from epp.discovery.pool_file import parse_pool_file
from tests.fakes.configurations import assembled

ROOT = Path(__file__).parents[3]
EXAMPLES = [
    path
    for path in sorted((ROOT / "config/examples").glob("*.yaml"))
    if "kind: EndpointPickerConfig" in path.read_text()
]
PAGE = (ROOT / "docs/configuration.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
FLAG = "--allow-experimental-plugins"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_loads_without_warnings(path: Path) -> None:
    text = path.read_text()
    assembly = assembled(text, allow_experimental=FLAG in text)

    assert assembly.warnings == []


@pytest.mark.parametrize("text", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_of_the_documentation_loads_without_warnings(text: str) -> None:
    assert assembled(text, allow_experimental=True).warnings == []


def test_the_page_lists_every_example_and_says_which_ones_need_a_flag() -> None:
    before, _, after = PAGE.partition(FLAG)
    needing = {path.name for path in EXAMPLES if FLAG in path.read_text()}

    assert listed_in(before) == {path.name for path in EXAMPLES} - needing
    assert needing <= listed_in(after)


def listed_in(text: str) -> set[str]:
    return set(re.findall(r"\(\.\./config/examples/(.+?)\)", text))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
    assert len(BLOCKS) >= 3


def test_the_objective_of_the_pool_page_makes_requests_of_the_example_pool_sheddable() -> None:
    (objective,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/pool-file.md").read_text(), re.S)
    pool = (ROOT / "config/examples/pool.yaml").read_text()

    read = parse_pool_file(f"{pool}---\n{objective}".encode())

    assert (read.priorities, read.skipped, read.warnings) == ({"batch": -1}, (), ())


def test_the_default_example_is_the_built_in_default() -> None:
    example = load_config((ROOT / "config/examples/default.yaml").read_text())

    assert example == load_config(BUILT_IN) == load_config("")
