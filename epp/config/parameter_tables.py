"""The parameters of a plugin type, flat: path, type, default, bounds, meaning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from epp.framework.plugin import Parameters

_BOUNDS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "pattern": "like `{}`",
}
_DEEPEST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRow:
    """One parameter."""

    path: str
    """`sessionIdConfig.sources[].header`."""
    type: str
    default: str
    """As JSON; `required`; empty for what merely holds others."""
    bounds: str
    description: str


def parameter_rows(schema: type[Parameters]) -> Iterator[ParameterRow]:
    """Every parameter, those within others after them."""
    described = schema.model_json_schema(by_alias=True)
    yield from _rows(described, described.get("$defs", {}), "", _DEEPEST)


def _rows(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str, depth: int
) -> Iterator[ParameterRow]:
    required = schema.get("required", ())
    for name, written in schema.get("properties", {}).items():
        branches = [_followed(branch, definitions) for branch in written.get("anyOf", [written])]
        branches = [branch for branch in branches if branch.get("type") != "null"]
        yield ParameterRow(
            path=prefix + name,
            type=" or ".join(dict.fromkeys(_type(branch, definitions) for branch in branches)),
            default="required" if name in required else _default(written),
            bounds=", ".join(bound for branch in branches for bound in _bounds(branch)),
            description=written.get("description") or branches[0].get("description", ""),
        )
        for branch in branches if depth else ():
            items = _followed(branch.get("items", {}), definitions)
            yield from _rows(branch, definitions, f"{prefix}{name}.", depth - 1)
            yield from _rows(items, definitions, f"{prefix}{name}[].", depth - 1)


def _followed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref", "")
    return definitions[reference.rpartition("/")[2]] if reference else schema


def _type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(_followed(schema.get('items', {}), definitions), definitions)}"
    return {"object": "mapping", "any": "anything"}.get(kind, kind)


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    if default is None or isinstance(default, dict):
        return ""
    return json.dumps(default, ensure_ascii=False)


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    if "const" in schema:
        yield json.dumps(schema["const"])
    if "enum" in schema:
        yield "one of " + ", ".join(json.dumps(value) for value in schema["enum"])
    for key, text in _BOUNDS.items():
        if key in ("minLength", "minItems") and schema.get(key) == 1:
            yield "not empty"
        elif key in schema:
            yield text.format(schema[key])
