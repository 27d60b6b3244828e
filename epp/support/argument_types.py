"""Functions that read text, as argparse wants them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def argument_type(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """`read` as the `type` of a flag; argparse drops what a ValueError says is allowed."""

    def read_argument(text: str) -> Value:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read_argument
