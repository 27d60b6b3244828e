"""Names of headers, as parameters have them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_NAME = re.compile(r":?[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""The colon of `:authority` and the like included."""


def _name(text: str) -> str:
    name = text.strip()
    if not _NAME.fullmatch(name):
        raise ValueError("a name of a header: letters, digits, '-', '_' and the like, no blanks")
    return name


def _name_to_set(text: str) -> str:
    if text.strip().startswith(":"):
        raise ValueError("a name of a header that can be set: without a colon")
    return _name(text)


def _name_if_any(text: str) -> str:
    return _name(text) if text.strip() else ""


HeaderName = Annotated[str, AfterValidator(_name)]
"""A name that a header can have, without the blanks around it."""

SettableHeaderName = Annotated[str, AfterValidator(_name_to_set)]
"""The same of a header that is set: none of HTTP's own."""

OptionalHeaderName = Annotated[str, AfterValidator(_name_if_any)]
"""A name, or nothing."""
