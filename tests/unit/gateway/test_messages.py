from __future__ import annotations

from epp.gateway import messages
from epp.wire import ext_proc_pb2 as wire


def test_constant_answers_have_their_part_set() -> None:
    for data, part in (
        (messages.EMPTY_REQUEST_HEADERS, "request_headers"),
        (messages.EMPTY_RESPONSE_HEADERS, "response_headers"),
        (messages.CONTINUE_REQUEST_BODY, "request_body"),
        (messages.CONTINUE_RESPONSE_BODY, "response_body"),
        (messages.REQUEST_TRAILERS, "request_trailers"),
        (messages.RESPONSE_TRAILERS, "response_trailers"),
    ):
        assert wire.ProcessingResponse.FromString(data).WhichOneof("response") == part


def test_hop_by_hop_and_pseudo_headers_are_never_set() -> None:
    mutation = wire.HeaderMutation()
    messages.fill_mutation(
        mutation, {"transfer-encoding": b"chunked", ":path": b"/x", "x-a": b"1", "x-b": None}
    )
    assert [option.header.key for option in mutation.set_headers] == ["x-a"]
    assert list(mutation.remove_headers) == ["x-b"]


def test_served_endpoint_of_metadata_wins_over_the_attribute() -> None:
    message = wire.ProcessingRequest()
    assert messages.served_endpoint(message) is None
    message.attributes["envoy.filters.http.ext_proc"].update({"upstream.address": "10.0.0.1:80"})
    assert messages.served_endpoint(message) == "10.0.0.1:80"
    message.metadata_context.filter_metadata["envoy.lb"].update(
        {"x-gateway-destination-endpoint-served": "10.0.0.2:80"}
    )
    assert messages.served_endpoint(message) == "10.0.0.2:80"
