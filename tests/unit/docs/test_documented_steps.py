"""Pages are taken at their word, so the reading of pages must be able to find them wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.documented_steps import Block, blocks_of, files_of, follow, is_printed

PAGE = """\
# A page

`a/greeting.txt`:

```text
hello
```

Some words.

```python
print()
```

Add to `a/greeting.txt`:

```text
world
```

```console
$ cat a/greeting.txt
hello
...
$ true
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_blocks_are_files_additions_or_just_blocks(page: Path) -> None:
    first, second, third, fourth = blocks_of(page)

    assert first == Block("text", "hello\n", "a/greeting.txt")
    assert (second.kind, second.file) == ("python", "")
    assert (third.file, third.is_addition) == ("a/greeting.txt", True)
    assert fourth.kind == "console"
    assert files_of(page) == {"a/greeting.txt": "hello\nworld\n"}


def test_a_page_that_is_right_is_followed(page: Path, tmp_path: Path) -> None:
    assert follow(page, tmp_path, os.environ) == 2


def test_a_page_that_is_wrong_is_told_with_what_was_printed(page: Path, tmp_path: Path) -> None:
    page.write_text(PAGE.replace("$ true", "$ echo surprise"))

    with pytest.raises(AssertionError, match="surprise"):
        follow(page, tmp_path, os.environ)


@pytest.mark.parametrize(
    ("expected", "printed", "is_right"),
    [
        ("one", "one\n", True),
        ("one", "two", False),
        ("one", "one\ntwo", False),
        ("one\n...", "one\ntwo", True),
        ("...\ntwo", "one\ntwo", True),
        ("a ... b", "a    x    b", True),
        ("a ... b", "a    x    c", False),
        ("", "", True),
        ("", "warning", False),
        ("1.0", "1x0", False),
    ],
)
def test_three_dots_stand_for_anything_and_nothing_else_does(
    expected: str, printed: str, is_right: bool
) -> None:
    assert is_printed(expected, printed) is is_right
