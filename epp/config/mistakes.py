"""What pydantic says of a value, as lines with path, value, what is allowed and what was meant."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from epp.config.schema import Section
from epp.datastore.manifest_errors import WRONG_LENGTHS, not_allowed, path_text, wrong_length
from epp.framework.plugin import Parameters
from epp.support.nearest import did_you_mean
from epp.support.safe_text import printable

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Location = tuple[int | str, ...]

_SHAPES = {
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "string_type": "a string (quote it)",
    "invalid_key": "fields are strings (quote it)",
}
_MOST = 200
_LONGEST = 1000
_PREFIXES = ("Input should be ", "Value error, ", "Assertion failed, ", "String should have ")


def mistakes(
    error: ValidationError, schema: type[BaseModel], at: str = "", *, hints: int = _MOST
) -> list[str]:
    """One line for each mistake in a value of `schema` that stands at the path `at`.

    What was meant by unknown names is told of the first `hints` of them.
    """
    details = error.errors(include_url=False)[:_MOST]
    return [
        _line(detail, at, schema, has_hint=place < hints) for place, detail in enumerate(details)
    ]


def joined(path: str, location: Location) -> str:
    """The path of `location` below `path`."""
    below = path_text(location)
    return path + below if not path or not below or below[0] == "[" else f"{path}.{below}"


def field_names(schemas: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """Names of fields as they are written, and their annotations."""
    return {
        field.alias or name: field.annotation
        for schema in schemas
        for name, field in schema.model_fields.items()
    }


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models among what a field may hold: itself, of a list, of a union."""
    return list(_models(annotation))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models(argument)


def _line(detail: ErrorDetails, at: str, schema: type[BaseModel], *, has_hint: bool) -> str:
    location = detail["loc"]
    path = joined(at, location)
    if detail["type"] == "extra_forbidden":
        schemas = _schemas_at(schema, location[:-1]) if has_hint else []
        return f"{path}: unknown field{_what_is_meant(str(location[-1]), schemas)}"
    if detail["type"] == "missing":
        return f"{path}: required"
    if detail["type"] in WRONG_LENGTHS:
        return wrong_length(path, detail)
    if location[-1:] == ("[key]",):
        return not_allowed(joined(at, location[:-2]), detail["input"], "keys are strings")
    message = _SHAPES.get(detail["type"]) or detail["msg"]
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    return not_allowed(path, detail["input"], printable(message, _LONGEST))


def _what_is_meant(name: str, schemas: Sequence[type[BaseModel]]) -> str:
    for found in schemas:
        if issubclass(found, (Parameters, Section)) and name in found.elsewhere:
            return f"; it is one of {found.elsewhere[name]}"
    known = field_names(schemas)
    if not known:
        return ""
    return did_you_mean(name, known) or f"; allowed: {', '.join(known)}"


def _schemas_at(schema: type[BaseModel], location: Location) -> list[type[BaseModel]]:
    """The models that may stand at `location` below `schema`."""
    schemas = [schema]
    for part in location:
        names = field_names(schemas)
        if part in names:
            schemas = models_in(names[str(part)])
        else:  # a list's index, or pydantic's name for a member of a union
            schemas = [found for found in schemas if found.__name__ == part] or schemas
    return schemas
