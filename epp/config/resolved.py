"""The effective document as YAML: what a configuration means once everything is filled in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from epp.config.assembly import Assembly
from epp.config.blueprint import Blueprint
from epp.config.document import Origin
from epp.config.instances import Instance
from epp.config.scheduling import Member
from epp.config.schema import API_VERSION, KIND
from epp.support.safe_text import printable

_NOTES = {
    Origin.DEFAULT: "added: default",
    Origin.PRODUCER: "added: needed for the data it writes",
}


def resolved_text(assembly: Assembly) -> str:
    """A document that means the same as the one it was made of, with comments.

    Added plugins are marked; the end tells who reads what from whom.
    """
    blueprint = assembly.blueprint
    lines = [_dumped({"apiVersion": API_VERSION, "kind": KIND})]
    lines.append(_dumped({"featureGates": _gates(blueprint)}))
    lines.append("plugins:\n")
    for instance in blueprint.instances:
        note = _NOTES.get(instance.entry.origin)
        lines += [f"# {note}\n"] if note else []
        lines.append(_dumped([_plugin(instance)]))
    lines.append(_dumped({"schedulingProfiles": _profiles(blueprint)}))
    lines.append(_dumped({"dataLayer": _data_layer(blueprint)}))
    lines.append(_dumped({"requestHandler": {"parsers": _references(blueprint.parsers)}}))
    if blueprint.detector is not None:
        detector = {"pluginRef": blueprint.detector.name}
        lines.append(_dumped({"flowControl": {"saturationDetector": detector}}))
    return "".join([*lines, *_wiring(blueprint)])


def _dumped(value: object) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    return text


def _gates(blueprint: Blueprint) -> list[str]:
    return [f"{name}={str(value).lower()}" for name, value in blueprint.feature_gates.items()]


def _plugin(instance: Instance) -> dict[str, Any]:
    entry = {"name": instance.name, "type": instance.entry.type}
    parameters = effective_parameters(instance)
    return {**entry, "parameters": parameters} if parameters else entry


def effective_parameters(instance: Instance) -> dict[str, Any]:
    """All parameters with their values; as written where a schema reads what it can't write."""
    parameters = instance.parameters
    if parameters is None or instance.kind.ignores_parameters:
        return {}
    dumped = parameters.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        is_faithful = type(parameters).model_validate_json(json.dumps(dumped)) == parameters
    except ValueError:
        is_faithful = False
    return dumped if is_faithful else dict(instance.entry.parameters or {})


def _profiles(blueprint: Blueprint) -> list[dict[str, Any]]:
    return [
        {"name": profile.name, "plugins": [_member(member) for member in profile.members]}
        for profile in blueprint.scheduling.profiles
    ]


def _member(member: Member) -> dict[str, Any]:
    reference: dict[str, Any] = {"pluginRef": member.instance.name}
    return {**reference, "weight": member.weight} if member.is_scorer else reference


def _data_layer(blueprint: Blueprint) -> dict[str, Any]:
    section: dict[str, Any] = {
        "injectDefaults": False,
        "sources": [
            {"pluginRef": source.instance.name, "extractors": _references(source.extractors)}
            for source in blueprint.sources
        ],
    }
    if blueprint.discovery is not None:
        section["discovery"] = {"pluginRef": blueprint.discovery.name}
    return section


def _references(instances: Iterable[Instance]) -> list[dict[str, str]]:
    return [{"pluginRef": instance.name} for instance in instances]


def _wiring(blueprint: Blueprint) -> Iterator[str]:
    if not blueprint.links:
        return
    yield "\n# Who reads what from whom:\n"
    for link in blueprint.links:
        producer = link.producer.name if link.producer else "nobody"
        line = f"#   {link.reader.name}: {link.input.data_type.name} from {producer}"
        yield f"{printable(line)}\n"  # a line break in a name would end the comment
