"""Pure functions between wire messages and our own types, by protobuf.

Everything sent is bytes. Bodies, which most messages carry, are read and written by hand in
`body_messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from epp.framework.headers import Headers
from epp.request_control.response_headers import SERVED_ENDPOINT_HEADER
from epp.request_control.tracing import TRACEPARENT_HEADER
from epp.wire import ext_proc_pb2 as wire

if TYPE_CHECKING:
    from google.protobuf.struct_pb2 import Struct

DESTINATION_NAMESPACE = "envoy.lb"
DESTINATION_HEADER = "x-gateway-destination-endpoint"
SUBSET_NAMESPACE = "envoy.lb.subset_hint"
SUBSET_KEY = "x-gateway-destination-endpoint-subset"
_ATTRIBUTES_NAMESPACE = "envoy.filters.http.ext_proc"
_UPSTREAM_ADDRESS = "upstream.address"
_CODE_DETAILS = "response.code_details"
_DETAILS_OF_ENDPOINTS = (
    "via_upstream",
    "upstream_",
    "late_upstream_reset",
    "response_timeout",
    "stream_idle_timeout",
    "max_duration_timeout",
)
"""How Envoy's details of an endpoint's answer begin, and of one that its silence or loss led to."""
_OVERFLOW = "overflow"
"""In the details where a circuit breaker let nothing through."""
_SOME_TRACE = b"?" * 55
"""As long as every `traceparent`, and not to be found in anything else that is sent."""

_NEVER_CHANGED = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)

HeaderChanges = Mapping[str, bytes | None]


def read_headers(header_map: wire.HeaderMap) -> Headers:
    """Headers of a message: lower-case names, `raw_value` when it is not empty, else `value`."""
    return Headers(
        [(header.key.lower(), header.raw_value or header.value) for header in header_map.headers]
    )


def subset_hint(metadata: wire.Metadata) -> tuple[bool, object]:
    """Whether the message's metadata has the subset namespace, and the subset as Python data.

    A namespace without any key counts as absent, so that an earlier message's hint stays
    (decision 29). The value None says: no subset.
    """
    if SUBSET_NAMESPACE not in metadata.filter_metadata:
        return False, None
    namespace = metadata.filter_metadata[SUBSET_NAMESPACE]
    if not namespace.fields:
        return False, None
    return True, _plain(namespace, SUBSET_KEY)


def served_endpoint(message: wire.ProcessingRequest) -> str | None:
    """Who served the response, as far as the gateway says so; None when it does not."""
    metadata = message.metadata_context.filter_metadata
    if DESTINATION_NAMESPACE in metadata:
        served = _plain(metadata[DESTINATION_NAMESPACE], SERVED_ENDPOINT_HEADER)
        if isinstance(served, str) and served:
            return served
    if _ATTRIBUTES_NAMESPACE in message.attributes:
        address = _plain(message.attributes[_ATTRIBUTES_NAMESPACE], _UPSTREAM_ADDRESS)
        if isinstance(address, str) and address:
            return address
    return None


def is_gateways_own(message: wire.ProcessingRequest) -> bool:
    """Whether the gateway says that it made this response, and no endpoint had a part in it."""
    if _ATTRIBUTES_NAMESPACE not in message.attributes:
        return False
    details = _plain(message.attributes[_ATTRIBUTES_NAMESPACE], _CODE_DETAILS)
    if not isinstance(details, str) or not details:
        return False
    return _OVERFLOW in details or not details.startswith(_DETAILS_OF_ENDPOINTS)


def _plain(struct: Struct, key: str) -> object:
    if key not in struct.fields:
        return None
    value = struct.fields[key]
    kind = value.WhichOneof("kind")
    if kind == "list_value":
        return [
            item.string_value if item.WhichOneof("kind") == "string_value" else None
            for item in value.list_value.values
        ]
    return value.string_value if kind == "string_value" else _OTHER_TYPE


_OTHER_TYPE = object()


def with_metadata(answer: bytes, metadata: Mapping[str, Mapping[str, Any]]) -> bytes:
    """A serialized answer that tells the gateway something besides; it has no metadata yet."""
    if not metadata:
        return answer
    # Fields of a message may follow one another in any order, so this one goes to the end.
    extra = wire.ProcessingResponse()
    for namespace, values in metadata.items():
        extra.dynamic_metadata.fields[namespace].struct_value.update(values)
    return answer + extra.SerializeToString()


def _constant(field: str) -> bytes:
    # SetInParent: a oneof member that is merely read stays unset, and Envoy answers 500.
    answer = wire.ProcessingResponse()
    getattr(answer, field).SetInParent()
    return answer.SerializeToString()


def _empty_common(field: str) -> bytes:
    answer = wire.ProcessingResponse()
    getattr(answer, field).response.SetInParent()
    return answer.SerializeToString()


EMPTY_REQUEST_HEADERS = _empty_common("request_headers")
EMPTY_RESPONSE_HEADERS = _empty_common("response_headers")
CONTINUE_REQUEST_BODY = _empty_common("request_body")
CONTINUE_RESPONSE_BODY = _empty_common("response_body")
REQUEST_TRAILERS = _constant("request_trailers")
RESPONSE_TRAILERS = _constant("response_trailers")


def fill_mutation(mutation: wire.HeaderMutation, changes: HeaderChanges) -> None:
    """Write header changes: a value overwrites, None removes. Pseudo and hop-by-hop headers are
    the gateway's and stay as they are."""
    for name, value in changes.items():
        if name in _NEVER_CHANGED or name.startswith(":"):
            continue
        if value is None:
            mutation.remove_headers.append(name)
        else:
            option = mutation.set_headers.add()
            option.append_action = wire.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
            option.header.key = name
            option.header.raw_value = value


def request_answer(
    changes: HeaderChanges,
    destination: str | None,
    *,
    on_headers: bool,
    body: bytes | None = None,
    metadata: Mapping[str, Mapping[str, Any]] | None = None,
) -> bytes:
    """The answer that carries the decision: on `request_headers`, else on `request_body`.

    `body` replaces the request's body (only in an answer on a buffered body). `metadata` is sent
    beside the destination, which no key of it can displace (D8).
    """
    header = changes.get(DESTINATION_HEADER)
    if header is None or destination is None or body is not None or metadata:
        return _request_answer(changes, destination, on_headers, body, metadata or {})
    if len(changes) == 1:
        return _pick_alone(header, destination, on_headers)
    trace = changes.get(TRACEPARENT_HEADER)
    if len(changes) == 2 and trace is not None and len(trace) == len(_SOME_TRACE):
        return _pick_traced(header, destination, on_headers).replace(_SOME_TRACE, trace)
    return _request_answer(changes, destination, on_headers, body, {})


# Most answers name an endpoint, and perhaps a trace, and say nothing else: 0.2 us instead of 6.
@lru_cache(maxsize=4096)
def _pick_alone(header: bytes, destination: str, on_headers: bool) -> bytes:
    return _request_answer({DESTINATION_HEADER: header}, destination, on_headers, None, {})


@lru_cache(maxsize=4096)
def _pick_traced(header: bytes, destination: str, on_headers: bool) -> bytes:
    changes = {DESTINATION_HEADER: header, TRACEPARENT_HEADER: _SOME_TRACE}
    return _request_answer(changes, destination, on_headers, None, {})


def _request_answer(
    changes: HeaderChanges,
    destination: str | None,
    on_headers: bool,
    body: bytes | None,
    metadata: Mapping[str, Mapping[str, Any]],
) -> bytes:
    answer = wire.ProcessingResponse()
    common = answer.request_headers.response if on_headers else answer.request_body.response
    common.clear_route_cache = True
    fill_mutation(common.header_mutation, changes)
    common.header_mutation.SetInParent()
    if body is not None:
        common.body_mutation.body = body
    for namespace, values in metadata.items():
        answer.dynamic_metadata.fields[namespace].struct_value.update(values)
    if destination is not None:
        struct = answer.dynamic_metadata.fields[DESTINATION_NAMESPACE].struct_value
        struct.fields[DESTINATION_HEADER].string_value = destination
    return answer.SerializeToString()


def response_headers_answer(changes: HeaderChanges) -> bytes:
    """The answer on `response_headers`: only what differs."""
    if not changes:
        return EMPTY_RESPONSE_HEADERS
    answer = wire.ProcessingResponse()
    fill_mutation(answer.response_headers.response.header_mutation, changes)
    return answer.SerializeToString()


def response_body_replaced(body: bytes, *, content_length: bool) -> bytes:
    """The answer on a `response_body` whose bytes change, in the modes that want exactly one.

    A buffered body keeps its `content-length`, which must then be exact.
    """
    answer = wire.ProcessingResponse()
    common = answer.response_body.response
    if body:
        common.body_mutation.body = body
    else:
        common.body_mutation.clear_body = True
    if content_length:
        fill_mutation(common.header_mutation, {"content-length": b"%d" % len(body)})
    return answer.SerializeToString()
