"""Paths of files, as parameters have them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator


def _is_of_a_file(path: Path) -> Path:
    if path == Path() or "\0" in str(path):
        raise ValueError("the path of a file")
    return path


FilePath = Annotated[Path, AfterValidator(_is_of_a_file)]
"""A path that a file can have."""

OptionalFilePath = Annotated[
    FilePath | None, BeforeValidator(lambda text: None if text == "" else text)
]
"""The same; left out or, as in the reference, empty: none."""
