"""InferencePool manifests on both sides of every rule, for all who decide what is valid."""

from __future__ import annotations

import copy
from typing import Any

DELETED = object()

_MANIFEST: dict[str, Any] = {
    "apiVersion": "inference.networking.k8s.io/v1",
    "kind": "InferencePool",
    "metadata": {"name": "pool"},
    "spec": {
        "selector": {"matchLabels": {"app": "llama"}},
        "targetPorts": [{"number": 8000}, {"number": 8001}],
        "appProtocol": "kubernetes.io/h2c",
        "endpointPickerRef": {
            "group": "",
            "kind": "Service",
            "name": "epp",
            "port": {"number": 9002},
            "failureMode": "FailOpen",
        },
    },
}

Change = tuple[str, object]
"""A path in the manifest, and what stands there instead."""

VALID: tuple[Change, ...] = (
    ("", None),
    ("spec/selector/matchLabels", {f"key-{number}": "" for number in range(64)}),
    ("spec/selector/matchLabels/app", "x" * 63),
    ("spec/selector/matchLabels", {"keys are !not! checked": "A.b-c_d"}),
    ("spec/targetPorts", [{"number": number} for number in (1, 2, 3, 4, 5, 6, 7, 65535)]),
    ("spec/appProtocol", DELETED),
    ("spec/appProtocol", None),
    ("spec/appProtocol", "http"),
    ("spec/endpointPickerRef", DELETED),
    ("spec/endpointPickerRef", {"name": "x", "kind": "Picker"}),
    ("spec/endpointPickerRef/group", DELETED),
    ("spec/endpointPickerRef/group", "a.example.org"),
    ("spec/endpointPickerRef/kind", DELETED),
    ("spec/endpointPickerRef/kind", "a" * 63),
    ("spec/endpointPickerRef/name", "x" * 253),
    ("spec/endpointPickerRef/name", "Any Name"),
    ("spec/endpointPickerRef/port/number", 65535),
    ("spec/endpointPickerRef/failureMode", DELETED),
    ("spec/endpointPickerRef/failureMode", "FailClose"),
    ("spec/unknown", {"fields": "are pruned"}),
    ("metadata/name", "a.b-c.d"),
)

INVALID: tuple[Change, ...] = (
    ("apiVersion", DELETED),
    ("apiVersion", "inference.networking.k8s.io/v2"),
    ("kind", "Pool"),
    ("metadata/name", "Llama"),
    ("metadata/name", "-pool"),
    ("spec", DELETED),
    ("spec", []),
    ("spec/selector", DELETED),
    ("spec/selector", {}),
    ("spec/selector", "app=llama"),
    ("spec/selector/matchLabels", {}),
    ("spec/selector/matchLabels", None),
    ("spec/selector/matchLabels", {f"key-{number}": "" for number in range(65)}),
    ("spec/selector/matchLabels/app", True),
    ("spec/selector/matchLabels/app", 1),
    ("spec/selector/matchLabels/app", "x" * 64),
    ("spec/selector/matchLabels/app", "-x"),
    ("spec/selector/matchLabels/app", "x."),
    ("spec/selector/matchLabels/app", "a b"),
    ("spec/selector/matchLabels/app", "ä"),
    ("spec/targetPorts", DELETED),
    ("spec/targetPorts", None),
    ("spec/targetPorts", []),
    ("spec/targetPorts", 8000),
    ("spec/targetPorts", [{"number": number} for number in range(1, 10)]),
    ("spec/targetPorts/1", 8001),
    ("spec/targetPorts/1", {}),
    ("spec/targetPorts/1/number", None),
    ("spec/targetPorts/1/number", 0),
    ("spec/targetPorts/1/number", -1),
    ("spec/targetPorts/1/number", 65536),
    ("spec/targetPorts/1/number", "8001"),
    ("spec/targetPorts/1/number", 8001.5),
    ("spec/targetPorts/1/number", 8000),
    ("spec/appProtocol", ""),
    ("spec/appProtocol", "grpc"),
    ("spec/appProtocol", "HTTP"),
    ("spec/endpointPickerRef", "epp"),
    ("spec/endpointPickerRef/group", "A"),
    ("spec/endpointPickerRef/group", "a..b"),
    ("spec/endpointPickerRef/group", "a" * 254),
    ("spec/endpointPickerRef/kind", ""),
    ("spec/endpointPickerRef/kind", "1st"),
    ("spec/endpointPickerRef/kind", "a-"),
    ("spec/endpointPickerRef/kind", "a" * 64),
    ("spec/endpointPickerRef/name", DELETED),
    ("spec/endpointPickerRef/name", ""),
    ("spec/endpointPickerRef/name", "x" * 254),
    ("spec/endpointPickerRef/port", DELETED),
    ("spec/endpointPickerRef/port", None),
    ("spec/endpointPickerRef/port", 9002),
    ("spec/endpointPickerRef/port", {}),
    ("spec/endpointPickerRef/port/number", 0),
    ("spec/endpointPickerRef/port/number", 65536),
    ("spec/endpointPickerRef", {"name": "x"}),
    ("spec/endpointPickerRef/failureMode", ""),
    ("spec/endpointPickerRef/failureMode", "failopen"),
    ("spec/endpointPickerRef/failureMode", "FailClosed"),
)


def manifest_with(change: Change = ("", None)) -> dict[str, Any]:
    """A valid manifest but for one change."""
    return changed(copy.deepcopy(_MANIFEST), *change)


def changed(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """The document with another value at `path`; without a path, as it is."""
    if not path:
        return document
    *parents, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    target: Any = document
    for key in parents:
        target = target[key]
    if value is DELETED:
        del target[last]
    else:
        target[last] = value
    return document


def name_of(change: Change) -> str:
    """What a change is called in the name of a test."""
    path, value = change
    shown = "absent" if value is DELETED else repr(value)
    return f"{path}: {shown[:40]}" if path else "unchanged"
