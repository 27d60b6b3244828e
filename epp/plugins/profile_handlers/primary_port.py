"""Data-parallel ranks behind a sidecar: the gateway talks to the pod's first port."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from epp.framework.scheduling_results import SchedulingResult
from epp.support.addresses import join_host_port

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest

DATA_PARALLEL_HEADER = "x-data-parallel-host-port"
PORT_FIELD = "Port on which the pods' sidecars listen; 0: endpoints keep their own ports."
LAST_PORT = 65535


def sent_to_primary_port(
    request: InferenceRequest, result: SchedulingResult, port: int
) -> SchedulingResult:
    """`result` with its endpoints at `port`; a header names the rank that was picked.

    The endpoints keep identity and state, so that requests are counted where they end up.
    """
    if not port:
        return result
    request.headers.set(DATA_PARALLEL_HEADER, result.endpoints[0].address)
    endpoints = tuple(
        replace(endpoint, port=port, address=join_host_port(endpoint.ip, port))
        for endpoint in result.endpoints
    )
    moved = structs.replace(result.profiles[result.primary], endpoints=endpoints)
    return structs.replace(result, profiles={**result.profiles, result.primary: moved})
