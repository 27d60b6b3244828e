from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from epp.config.json_schema import json_schema
from epp.config.plugin_registry import PluginRegistry
from tests.fakes.configurations import registry_with

SCHEMA = json_schema(PluginRegistry())


def parameters_of(plugin_type: str, schema: dict[str, Any] = SCHEMA) -> Any:
    for rule in schema["$defs"]["PluginSpec"]["allOf"]:
        if rule["if"]["properties"]["type"]["const"] == plugin_type:
            return rule["then"]["properties"]["parameters"]
    raise KeyError(plugin_type)


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from [item] if key == "$ref" else references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_names_are_those_of_the_document() -> None:
    assert {"apiVersion", "plugins", "schedulingProfiles", "dataLayer"} <= set(SCHEMA["properties"])
    assert "defaultRequestTTL" in SCHEMA["$defs"]["FlowControlSpec"]["properties"]
    assert SCHEMA["additionalProperties"] is False
    assert SCHEMA["$defs"]["PluginSpec"]["required"] == ["type"]


def test_parameters_depend_on_the_type() -> None:
    assert set(parameters_of("max-score-picker")["properties"]) == {"maxNumOfEndpoints"}
    assert "additionalProperties" not in parameters_of("queue-scorer")
    assert parameters_of("passthrough-parser")["maxProperties"] == 0


def test_every_reference_leads_somewhere() -> None:
    paths = set(references(SCHEMA))

    assert "#/$defs/session-affinity-scorer.SessionIdConfig" in paths
    assert {path.removeprefix("#/$defs/") for path in paths} <= set(SCHEMA["$defs"])
    json.dumps(SCHEMA)


def test_installed_plugins_are_in_it_and_broken_ones_are_not() -> None:
    schema = json_schema(registry_with({"colour-scorer": "ColourScorer", "odd": "NOT_A_PLUGIN"}))

    assert "strength" in parameters_of("colour-scorer", schema)["properties"]
    assert "odd" not in schema["$defs"]["PluginSpec"]["properties"]["type"]["enum"]
