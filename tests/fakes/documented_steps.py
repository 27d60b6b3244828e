"""A page that leads through something, taken at its word: its files are written, its commands run.

A code block after a line of the form "`FILE`:" is that file, after "Add to `FILE`:" an addition to
it. Blocks called `console` are commands after `$ ` and what they print; `...` stands for anything.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"(?:^(?P<intro>\S[^\n]*)\n\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
_FILE = re.compile(r"(?P<add>Add to )?`(?P<name>[\w./-]+)`:")


@dataclass(frozen=True, slots=True)
class Block:
    """A code block."""

    kind: str
    text: str
    file: str = ""
    is_addition: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """What to type, and what is printed."""

    text: str
    output: str


def blocks_of(page: Path) -> list[Block]:
    """The code blocks of a page, in order."""
    blocks = []
    for found in _BLOCK.finditer(page.read_text()):
        named = _FILE.fullmatch(found["intro"] or "")
        file, is_addition = (named["name"], bool(named["add"])) if named else ("", False)
        blocks.append(Block(found["kind"], found["text"], file, is_addition))
    return blocks


def files_of(page: Path) -> dict[str, str]:
    """The files of a page as they are at its end."""
    files: dict[str, str] = {}
    for block in blocks_of(page):
        if block.file:
            before = files[block.file] if block.is_addition else ""
            files[block.file] = before + block.text
    return files


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a `console` block."""
    for part in block.text.removeprefix("$ ").split("\n$ "):
        text, _, output = part.partition("\n")
        yield Command(text, output)


def follow(page: Path, folder: Path, environment: Mapping[str, str]) -> int:
    """Do in `folder` what a page says; gives the number of commands that were run."""
    count = 0
    for block in blocks_of(page):
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((path.read_text() if block.is_addition else "") + block.text)
        elif block.kind == "console":
            for command in commands_of(block):
                _run(command, folder, environment)
                count += 1
    return count


def is_printed(expected: str, printed: str) -> bool:
    """Whether a page's output is what was printed, `...` being anything."""
    pattern = r".*?".join(
        re.escape(part.strip()) for part in re.split(r"\s*\.{3,}\s*", expected.strip())
    )
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


def _run(command: Command, folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command.text,
        shell=True,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert is_printed(command.output, done.stdout), (
        f"$ {command.text}\nprinted (exit code {done.returncode}):\n{done.stdout}\n"
        f"the page says:\n{command.output}"
    )
