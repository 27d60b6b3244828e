"""What a decision changes in the request: differences only (D3), and the answer that tells them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from epp.gateway.messages import (
    DESTINATION_HEADER,
    DESTINATION_NAMESPACE,
    EMPTY_REQUEST_HEADERS,
    REQUEST_TRAILERS,
    SUBSET_KEY,
    request_answer,
    with_metadata,
)
from epp.gateway.replies import DROP_REASON_HEADER
from epp.request_control.incoming import FAIRNESS_HEADERS, REWRITE_HEADERS
from epp.request_control.response_headers import SERVED_ENDPOINT_HEADER

if TYPE_CHECKING:
    from epp.framework.headers import Headers
    from epp.gateway.context import SaidOnce
    from epp.request_control.active_request import ActiveRequest

HOST_HEADERS = (
    "x-prefiller-host-port",
    "x-prefiller-url",
    "x-encoder-hosts-ports",
    "x-data-parallel-host-port",
    "x-kv-cache-source-host-port",
)
"""A client that could name hosts here would make a sidecar call them (pitfall 61)."""
REMOVED_HEADERS = frozenset(
    (
        *FAIRNESS_HEADERS,
        "x-llm-d-inference-objective",
        "x-gateway-inference-objective",
        *REWRITE_HEADERS,
        "x-llm-d-slo-ttft-ms",
        "x-slo-ttft-ms",
        "x-llm-d-slo-tpot-ms",
        "x-slo-tpot-ms",
        "x-llm-d-video-fps",
        "x-llm-d-video-duration-seconds",
        "x-llm-d-video-resolution",
        SUBSET_KEY,
        SERVED_ENDPOINT_HEADER,
        DROP_REASON_HEADER,
        *HOST_HEADERS,
    )
)
"""System-owned headers of protocol §3.3 and §3.5: no client's value reaches a model server."""
_CONTROL_HEADERS = REMOVED_HEADERS | {DESTINATION_HEADER}


def request_changes(active: ActiveRequest) -> dict[str, bytes | None]:
    """Header changes to send with the decision; None removes."""
    headers = active.request.headers
    changes: dict[str, bytes | None] = {}
    names = headers.as_mapping()
    if not REMOVED_HEADERS.isdisjoint(names):
        changes = {name: None for name in names if name in REMOVED_HEADERS}
    changes.update(headers.changes)
    destination = active.destination
    # Without a destination the client's own must go: gateways would follow it.
    changes[DESTINATION_HEADER] = destination.encode() if destination else None
    if active.body_changed and active.body is not None:
        changes["content-length"] = b"%d" % len(active.body)
    return changes


def decision_answer(active: ActiveRequest, said: SaidOnce, *, on_headers: bool) -> bytes:
    """The answer to the headers, or to a body that comes in one message."""
    answer = partial(
        request_answer,
        request_changes(active),
        active.destination,
        on_headers=on_headers,
        body=active.body if active.body_changed and not on_headers else None,
    )
    try:
        return answer(metadata=active.request.dynamic_metadata)
    except (TypeError, ValueError, AttributeError):
        said.warn("metadata of a plugin can't be sent: it is no JSON data", active.request.id)
        return answer()


def answer_before_body(headers: Headers) -> bytes:
    """The answer to headers whose body decides: nothing, but for headers that no client may send.

    A gateway that buffers goes on without a pick when trailers come and no body before them. By
    the client's own destination header it would go wherever the client says.
    """
    names = headers.as_mapping()
    if _CONTROL_HEADERS.isdisjoint(names):
        return EMPTY_REQUEST_HEADERS
    changes = {name: None for name in names if name in _CONTROL_HEADERS}
    return request_answer(changes, None, on_headers=True)


def trailers_decision_answer(active: ActiveRequest) -> bytes:
    """The answer to trailers that are all there is to answer: only metadata can name the pick."""
    if active.destination is None:
        return REQUEST_TRAILERS
    destination = {DESTINATION_HEADER: active.destination}
    return with_metadata(REQUEST_TRAILERS, {DESTINATION_NAMESPACE: destination})
