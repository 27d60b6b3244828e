"""What is wrong with a manifest, in words: path, value and what is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

from epp.support.safe_text import printable

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LONGEST_VALUE = 80
_MOST_LINES = 50
WRONG_LENGTHS = ("too_short", "too_long")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHAPES = {
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "string_type": "a string (quote it)",
}


def allowed(text: str) -> WrapValidator:
    """Annotation of a scalar: whatever is wrong with it, `text` is what it may be."""

    def check(value: object, inner: Callable[[object], object]) -> object:
        try:
            return inner(value)
        except ValidationError:
            raise PydanticCustomError("not_allowed", "{allowed}", {"allowed": text}) from None

    return WrapValidator(check)


def problems(error: ValidationError) -> list[str]:
    """One line for each mistake; unknown fields are not among them."""
    return [
        _problem(detail)
        for detail in error.errors(include_url=False)
        if detail["type"] != "extra_forbidden"
    ]


def unknown_fields(error: ValidationError) -> list[str]:
    """Paths of the fields nobody knows."""
    return [
        path_text(detail["loc"])
        for detail in error.errors(include_url=False)
        if detail["type"] == "extra_forbidden"
    ]


def not_allowed(path: str, value: object, allowed_text: str) -> str:
    """The line for one value."""
    prefix = f"{path}: " if path else ""
    return f"{prefix}{value_text(value)} is not allowed; {allowed_text}"


def wrong_length(path: str, detail: ErrorDetails) -> str:
    """The line for a list, or a mapping, with too few or too many entries."""
    context = detail["ctx"]
    bound = (
        f"at least {context['min_length']}"
        if detail["type"] == "too_short"
        else f"at most {context['max_length']}"
    )
    return f"{path}: {len(detail['input'])} entries are not allowed; {bound}"


def indented(lines: Sequence[str]) -> str:
    """Lines below a heading; a very long list is cut."""
    more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return "\n".join(f"  {line}" for line in [*lines[:_MOST_LINES], *more])


def value_text(value: object) -> str:
    """A value as it may have been written, cut when long."""
    if isinstance(value, (dict, list)):
        return _cut(repr(value))
    return _cut(json.dumps(value, default=str, ensure_ascii=False))


def path_text(location: Sequence[int | str]) -> str:
    """`spec.targetPorts[1].number`; keys that hold dots stand in brackets."""
    path = ""
    for part in location:
        if isinstance(part, str) and _PLAIN_KEY.fullmatch(part):
            path += f".{part}" if path else part
        else:
            path += f"[{_cut(printable(str(part)))}]"
    return path


def without_nulls(value: Any) -> Any:
    """A member that is null counts as absent, as it does for the API server."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _problem(detail: ErrorDetails) -> str:
    kind = detail["type"]
    if kind == "missing":
        return f"{path_text(detail['loc'])}: required"
    if detail["loc"][-1:] == ("[key]",):
        path = path_text(detail["loc"][:-2])
        return f"{path}: key {value_text(detail['input'])} is not allowed; {_SHAPES[kind]}"
    path = path_text(detail["loc"])
    if kind in WRONG_LENGTHS:
        return wrong_length(path, detail)
    return not_allowed(path, detail["input"], _SHAPES.get(kind) or detail["msg"])
