"""InferencePool before v1: refused, with the same pool in the form of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from epp.framework.errors import ConfigError

GROUP = "inference.networking.x-k8s.io"
_DEFAULT_PICKER_PORT = 9002


def refuse(document: object) -> None:
    """Raise `ConfigError` when `document` has the old group or one of the old fields."""
    if not isinstance(document, Mapping):
        return
    signs = list(_old_signs(document))
    if signs:
        raise ConfigError(
            f"InferencePool is written in the form before v1 ({', '.join(signs)}). Write it as:\n"
            + yaml.safe_dump(new_form(document), sort_keys=False)
        )


def new_form(document: Mapping[Any, Any]) -> dict[str, Any]:
    """The pool of an old manifest as a v1 manifest; what it lacks is left to be filled in."""
    metadata, spec = _mapping(document.get("metadata")), _mapping(document.get("spec"))
    selector = _mapping(spec.get("selector"))
    new_spec: dict[str, Any] = {
        "selector": selector if "matchLabels" in selector else {"matchLabels": selector},
        "targetPorts": spec.get("targetPorts")
        or [{"number": spec.get("targetPortNumber", "<port>")}],
    }
    reference = spec.get("endpointPickerRef") or spec.get("extensionRef")
    if isinstance(reference, Mapping):
        moved = {key: value for key, value in reference.items() if key != "portNumber"}
        port = {"number": reference.get("portNumber", _DEFAULT_PICKER_PORT)}
        new_spec["endpointPickerRef"] = {"port": port, **moved}
    return {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {key: metadata[key] for key in ("name", "namespace") if key in metadata},
        "spec": new_spec,
    }


def _old_signs(document: Mapping[Any, Any]) -> list[str]:
    spec = _mapping(document.get("spec"))
    api_version = document.get("apiVersion")
    signs = []
    if isinstance(api_version, str) and api_version.partition("/")[0] == GROUP:
        signs.append(f"apiVersion {api_version}")
    selector = _mapping(spec.get("selector"))
    if selector and all(isinstance(value, str) for value in selector.values()):
        signs.append("spec.selector without matchLabels")
    signs += [f"spec.{name}" for name in ("targetPortNumber", "extensionRef") if name in spec]
    return signs


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}
