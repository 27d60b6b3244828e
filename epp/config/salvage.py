"""Reading a section that has mistakes: they are noted and cut out, and the rest still counts."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from epp.config.findings import Findings
from epp.config.mistakes import Location, mistakes
from epp.datastore.manifest_errors import path_text

M = TypeVar("M", bound=BaseModel)


def salvaged(schema: type[M], raw: dict[str, Any], findings: Findings) -> tuple[M, set[str]]:
    """`raw` as `schema`, and the paths of list entries that are empty since they were no mappings.

    Every mistake becomes a problem.
    """
    emptied: set[str] = set()
    try:
        return schema.model_validate(raw), emptied
    except ValidationError as error:
        findings.problems += mistakes(error, schema)
        faults = error
    rest = copy.deepcopy(raw)
    for detail in faults.errors(include_url=False, include_input=False):
        _cut(rest, detail["loc"], emptied)
    try:
        return schema.model_validate(rest), emptied
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            rest.pop(str(detail["loc"][0]), None)
    return schema.model_validate({key: rest[key] for key in rest if key in _names(schema)}), emptied


def _names(schema: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in schema.model_fields.items()}


def _cut(value: Any, location: Location, emptied: set[str]) -> None:
    """Delete the member at `location`; an entry of a list becomes an empty mapping."""
    for depth, part in enumerate(location):
        is_last = depth == len(location) - 1
        if isinstance(value, dict):
            if part not in value:
                _cut_odd_keys(value)
                return
            if is_last:
                del value[part]
                return
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            if is_last:
                value[part] = {}
                emptied.add(path_text(location))
                return
            value = value[part]


def _cut_odd_keys(value: dict[Any, Any]) -> None:
    """Keys that are no strings are all mistakes; pydantic's locations have them as text."""
    for key in [key for key in value if not isinstance(key, str)]:
        del value[key]
