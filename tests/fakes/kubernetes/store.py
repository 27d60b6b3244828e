"""The objects of a fake cluster, with versions and history as etcd and an API server keep them."""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.kubernetes.objects import Manifest

_PATH = re.compile(
    r"/api(?:s/(?P<group>[^/]+))?/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?"
)
_PLURALS = {
    "Pod": "pods",
    "InferencePool": "inferencepools",
    "InferenceObjective": "inferenceobjectives",
    "Lease": "leases",
    "Event": "events",
}
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "generation")


class Refusal(Exception):
    """The API server says no."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class Target:
    """What a path names."""

    group: str
    version: str
    namespace: str
    resource: str
    name: str = ""
    subresource: str = ""

    @property
    def collection(self) -> tuple[str, str, str]:
        return self.group, self.resource, self.namespace


def target_of_path(path: str) -> Target | None:
    """The target of a URL's path, None when no API is served there."""
    found = _PATH.fullmatch(path)
    return (
        Target(**{name: text or "" for name, text in found.groupdict().items()}) if found else None
    )


def target_of(manifest: Mapping[str, Any], subresource: str = "") -> Target:
    """The target a manifest describes."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    metadata = manifest["metadata"]
    return Target(
        group=group,
        version=version,
        namespace=metadata["namespace"],
        resource=_PLURALS[manifest["kind"]],
        name=metadata["name"],
        subresource=subresource.strip("/"),
    )


@dataclass(frozen=True)
class Entry:
    """One change in the history."""

    revision: int
    collection: tuple[str, str, str]
    old: Manifest | None
    new: Manifest | None
    last: Manifest
    """The object as it is now, or was; with the version of this change."""


class KubeStore:
    """Every change makes a new revision, and tells the listener."""

    def __init__(self, listener: Callable[[Entry], None]) -> None:
        self._listener = listener
        self._objects: dict[tuple[str, str, str], dict[str, Manifest]] = {}
        self.revision = 100
        self.history: list[Entry] = []

    def wipe(self) -> None:
        """Everything is lost, and versions start over."""
        self._objects.clear()
        self.history.clear()
        self.revision = 1

    def objects(self, target: Target) -> list[Manifest]:
        """A collection, ordered by name."""
        return [found for _, found in sorted(self._objects.get(target.collection, {}).items())]

    def get(self, target: Target) -> Manifest:
        """One object."""
        try:
            return self._objects[target.collection][target.name]
        except KeyError:
            message = f'{target.resource} "{target.name}" not found'
            raise Refusal(404, "NotFound", message) from None

    def create(self, target: Target, manifest: Manifest) -> Manifest:
        """A new object, completed as the API server does."""
        name = manifest["metadata"]["name"]
        if name in self._objects.get(target.collection, {}):
            raise Refusal(409, "AlreadyExists", f'{target.resource} "{name}" already exists')
        new = copy.deepcopy(manifest)
        new["metadata"] |= {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "test", "fieldsV1": {"f:spec": {"f:other": {}}}}],
        }
        if target.group:
            new["metadata"]["generation"] = 1
        _complete(target, new)
        new.pop("status", None)
        if target.resource == "pods":
            new["status"] = {"phase": "Pending"}
        return self._put(target, name, None, new)

    def update(self, target: Target, manifest: Manifest) -> Manifest:
        """Replace an object, or only its status; refused if it has changed meanwhile."""
        old = self.get(target)
        version = manifest["metadata"].get("resourceVersion")
        if not version and target.resource == "inferencepools":
            raise Refusal(422, "Invalid", "metadata.resourceVersion: must be specified")
        if version and version != old["metadata"]["resourceVersion"]:
            raise Refusal(
                409, "Conflict", "the object has been modified; please apply your changes"
            )
        new = copy.deepcopy(manifest)
        if target.subresource == "status":
            new = {**copy.deepcopy(old), "status": new.get("status", {})}
        elif "status" in old:
            new["status"] = copy.deepcopy(old["status"])
        else:
            new.pop("status", None)
        kept = {name: old["metadata"][name] for name in _SERVER_FIELDS if name in old["metadata"]}
        new["metadata"] = {**new["metadata"], **kept}
        _complete(target, new)
        if target.group and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        held = old["metadata"].get("finalizers") and "deletionTimestamp" in old["metadata"]
        if held and not new["metadata"].get("finalizers"):
            return self._put(target, target.name, old, None)
        return self._put(target, target.name, old, new)

    def patch(self, target: Target, change: Mapping[str, Any]) -> Manifest:
        """Merge a change into an object."""
        old = self.get(target)
        new = _merged(old, change)
        if not (change.get("metadata") or {}).get("resourceVersion"):
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return self.update(target, new)

    def delete(self, target: Target, grace_seconds: int | None = None) -> Manifest:
        """Delete an object; one that has a node or finalizers is told to go first."""
        old = self.get(target)
        graceful = target.resource == "pods" and old["spec"].get("nodeName")
        is_held = bool(old["metadata"].get("finalizers"))
        if (graceful or is_held) and "deletionTimestamp" not in old["metadata"]:
            new = copy.deepcopy(old)
            new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
            old = self._put(target, target.name, old, new)
        if is_held or (graceful and grace_seconds != 0):
            return old
        return self._put(target, target.name, old, None)

    def put_unchecked(self, target: Target, document: Manifest) -> None:
        """Store something no API server would take."""
        old = self._objects.get(target.collection, {}).get(target.name)
        self._put(target, target.name, old, copy.deepcopy(document))

    def _put(
        self, target: Target, name: str, old: Manifest | None, new: Manifest | None
    ) -> Manifest:
        if old is not None and new is not None and old == new:
            return old  # no write, no event
        self.revision += 1
        last = copy.deepcopy(new if new is not None else old or {})
        last["metadata"]["resourceVersion"] = str(self.revision)
        collection = self._objects.setdefault(target.collection, {})
        if new is None:
            del collection[name]
        else:
            collection[name] = last
        entry = Entry(self.revision, target.collection, old, None if new is None else last, last)
        self.history.append(entry)
        self._listener(entry)
        return last


def _complete(target: Target, document: Manifest) -> None:
    """Check a pool and fill in its defaults, as its CustomResourceDefinition asks."""
    if target.resource != "inferencepools":
        return
    spec = document.get("spec") or {}
    if not (spec.get("selector") or {}).get("matchLabels") or not spec.get("targetPorts"):
        raise Refusal(422, "Invalid", "spec.selector.matchLabels, spec.targetPorts: Required value")
    spec.setdefault("appProtocol", "http")
    if reference := spec.get("endpointPickerRef"):
        for name, value in (("group", ""), ("kind", "Service"), ("failureMode", "FailClose")):
            reference.setdefault(name, value)


def _merged(document: Any, change: Any) -> Any:
    if not isinstance(change, Mapping):
        return copy.deepcopy(change)
    merged = dict(copy.deepcopy(document)) if isinstance(document, Mapping) else {}
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged
