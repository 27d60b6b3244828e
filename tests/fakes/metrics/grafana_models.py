"""What Grafana's published models would drop of a dashboard, and the values they do not know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_type_hints

from grafana_foundation_sdk.cog import runtime
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def faults_in_dashboard(document: dict[str, Any]) -> list[str]:
    """Where Grafana's models know no such panel, data source, field or value."""
    register_default_plugins()
    read = Dashboard.from_json(document)
    written = json.loads(json.dumps(read, cls=JSONEncoder))
    return [*_unknown_kinds(document), *_dropped(document, written, "$"), *_no_members(read, "$")]


def _unknown_kinds(document: dict[str, Any]) -> Iterator[str]:
    for panel in document["panels"]:
        if panel["type"] != "row" and runtime.panelcfg_config(panel["type"]) is None:
            yield f"{panel['title']}: no panel of type {panel['type']}"
        for target in panel.get("targets", ()):
            read = runtime.dataquery_from_json(target, "")
            if isinstance(read, runtime.UnknownDataquery):
                yield f"{panel['title']}: no data source {target.get('datasource')}"


def _dropped(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name in after:
                yield from _dropped(value, after[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}: no such field"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _dropped(old, new, f"{path}[{index}]")
    elif before != after:
        yield f"{path}: {before!r} is read as {after!r}"


def _no_members(read: Any, path: str) -> Iterator[str]:
    if isinstance(read, list):
        for index, each in enumerate(read):
            yield from _no_members(each, f"{path}[{index}]")
    elif isinstance(read, dict):
        for name, each in read.items():
            yield from _no_members(each, f"{path}.{name}")
    elif hasattr(read, "from_json"):
        hints = get_type_hints(type(read))
        for name, each in vars(read).items():
            members = [member.value for enum in _enums_of(hints[name]) for member in enum]
            if members and isinstance(each, str) and each not in members:
                yield f"{path}.{name}: {each!r} is none of {members}"
            yield from _no_members(each, f"{path}.{name}")


def _enums_of(hint: Any) -> Iterator[type[Enum]]:
    if isinstance(hint, type) and issubclass(hint, Enum):
        yield hint
    for argument in get_args(hint):
        yield from _enums_of(argument)
