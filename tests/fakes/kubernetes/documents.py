"""What an API server wraps objects in: lines of a watch, bookmarks and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.fakes.kubernetes.objects import Manifest
from tests.fakes.kubernetes.store import Target

KINDS = {
    "pods": "Pod",
    "inferencepools": "InferencePool",
    "inferenceobjectives": "InferenceObjective",
    "leases": "Lease",
    "events": "Event",
}


def line_of(type_: str, document: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": document}).encode() + b"\n"


def bookmark(target: Target, revision: int, *, ends_initial_events: bool = False) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"} if ends_initial_events else {}
    metadata = {
        "resourceVersion": str(revision),
        "creationTimestamp": None,
        "annotations": annotations,
    }
    return line_of("BOOKMARK", {"kind": KINDS[target.resource], "metadata": metadata})


def status_of(code: int, reason: str, message: str) -> Manifest:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
