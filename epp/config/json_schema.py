"""JSON Schema of the document, for editors: the parameters of every plugin type included."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from epp.config.plugin_registry import PluginRegistry
from epp.config.schema import EndpointPickerConfig
from epp.framework.errors import ConfigError
from epp.framework.plugin import Plugin, parameters_of


class _Untitled(GenerateJsonSchema):
    """Editors show descriptions; titles would only repeat the names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def json_schema(registry: PluginRegistry) -> dict[str, Any]:
    """The schema; `parameters` depend on `type`. Types that can't be used are left out."""
    schema = EndpointPickerConfig.model_json_schema(by_alias=True, schema_generator=_Untitled)
    definitions = schema["$defs"]
    plugin = definitions["PluginSpec"]
    usable = _usable(registry)
    plugin["properties"]["type"]["enum"] = list(usable)
    plugin["allOf"] = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"properties": {"parameters": _parameters(name, kind, definitions)}},
        }
        for name, kind in usable.items()
    ]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _usable(registry: PluginRegistry) -> dict[str, type[Plugin]]:
    usable = {}
    for name in registry.types():
        try:
            usable[name] = registry.find(name)
        except ConfigError:
            continue
    return usable


def _parameters(name: str, kind: type[Plugin], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type's parameters; what it refers to goes into `definitions`."""
    if kind.ignores_parameters:
        return {"description": "Ignored."}
    model = parameters_of(kind)
    if model is None:
        return {"description": "There are none.", "maxProperties": 0}
    schema = model.model_json_schema(
        by_alias=True, ref_template=f"#/$defs/{name}.{{model}}", schema_generator=_Untitled
    )
    for inner, definition in schema.pop("$defs", {}).items():
        definitions[f"{name}.{inner}"] = definition
    return schema
