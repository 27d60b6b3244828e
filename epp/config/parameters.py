"""From the `parameters` of a plugin to its model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from epp.config.document import PluginEntry
from epp.config.findings import Findings
from epp.config.mistakes import field_names, mistakes, models_in
from epp.datastore.manifest_errors import value_text
from epp.framework.plugin import Parameters, Plugin, parameters_of


class ParametersRefused(Exception):
    """The parameters of a plugin are wrong; the findings say how."""


def read_parameters(
    entry: PluginEntry, kind: type[Plugin], findings: Findings
) -> Parameters | None:
    """The parameters of `entry`, None where `kind` has none.

    Names of the wrong case are accepted with a warning, and so is anything where the reference
    never looks (decision 17).
    """
    given = entry.parameters or {}
    path = f"{entry.path or entry.name}.parameters"
    schema = parameters_of(kind)
    if kind.ignores_parameters:
        if given:
            findings.warning(path, f"ignored: {entry.type} looks at none")
        return schema() if schema is not None else None
    if schema is None:
        if given:
            findings.problem(path, f"{value_text(given)} is not allowed; {entry.type} has none")
            raise ParametersRefused
        return None
    spelled = _spelled_right(schema, given, path, findings)
    _warn_of_replaced(schema, spelled, path, findings)
    return _validated(schema, spelled, path, findings)


def _warn_of_replaced(
    schema: type[Parameters], given: Mapping[str, Any], path: str, findings: Findings
) -> None:
    """What has its default says nothing: a resolved document has it all."""
    for field_name, field in schema.model_fields.items():
        name = field.alias or field_name
        instead = schema.replaced.get(name)
        if instead is not None and given.get(name, field.default) != field.default:
            findings.warning(f"{path}.{name}", f"deprecated; use {instead}")


def _validated(
    schema: type[Parameters], given: Mapping[str, Any], path: str, findings: Findings
) -> Parameters:
    try:
        # As JSON: lists are tuples there, strings are members of enumerations.
        text = json.dumps(given)
    except (TypeError, ValueError) as error:
        findings.problem(path, f"not what JSON can hold (quote dates): {error}")
        raise ParametersRefused from None
    try:
        return schema.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        findings.problems += mistakes(error, schema, path, hints=findings.hints_left)
        raise ParametersRefused from error


def _spelled_right(
    schema: type[BaseModel], given: Mapping[Any, Any], path: str, findings: Findings
) -> dict[str, Any]:
    """`given` with the names of `schema`, where they differ in case only."""
    names = field_names([schema])
    by_lower_case = {name.lower(): name for name in names}
    spelled: dict[str, Any] = {}
    for key, value in given.items():
        name = key if key in names else by_lower_case.get(str(key).lower(), key)
        if name != key:
            findings.warning(f"{path}.{key}", f"read as {name!r}: names are case-sensitive")
        if name in spelled:
            findings.problem(f"{path}.{key}", f"{name!r} is given twice")
            raise ParametersRefused
        spelled[name] = _deeper(names.get(name), value, f"{path}.{name}", findings)
    return spelled


def _deeper(annotation: Any, value: Any, path: str, findings: Findings) -> Any:
    schemas = models_in(annotation)
    if len(schemas) != 1:
        return value
    if isinstance(value, dict):
        return _spelled_right(schemas[0], value, path, findings)
    if isinstance(value, list):
        return [
            _spelled_right(schemas[0], item, f"{path}[{index}]", findings)
            if isinstance(item, dict)
            else item
            for index, item in enumerate(value)
        ]
    return value
