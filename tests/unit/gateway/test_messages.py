from __future__ import annotations

import pytest

from epp.gateway import messages
from epp.wire import ext_proc_pb2 as wire
from tests.fakes.pickers.gateway_client import read_answer


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


TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("on_headers", [True, False])
@pytest.mark.parametrize("trace", [TRACE, TRACE[:-1] + b"0", TRACE + b"-more", b"", b"?" * 55])
def test_a_decision_names_the_trace_that_is_given_beside_the_destination(
    on_headers: bool, trace: bytes
) -> None:
    changes = {"traceparent": trace, messages.DESTINATION_HEADER: b"10.0.0.1:8000"}

    for _ in range(2):
        data = messages.request_answer(changes, "10.0.0.1:8000", on_headers=on_headers)

        answer = read_answer(data)
        assert answer.set_headers == changes
        assert answer.destination == "10.0.0.1:8000"
        assert answer.kind == ("request_headers" if on_headers else "request_body")


def test_hop_by_hop_and_pseudo_headers_are_neither_set_nor_removed() -> None:
    mutation = wire.HeaderMutation()
    ours = {"transfer-encoding": b"chunked", ":path": b"/x", "te": None, ":method": None}
    messages.fill_mutation(mutation, {**ours, "x-a": b"1", "x-b": None})
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


@pytest.mark.parametrize(
    ("details", "own"),
    [
        ("via_upstream", False),
        ("upstream_reset_before_response_started{remote_connection_failure|refused}", False),
        ("upstream_response_timeout", False),
        ("response_timeout", False),
        ("stream_idle_timeout", False),
        ("upstream_reset_before_response_started{overflow}", True),
        ("no_healthy_upstream", True),
        ("maintenance_mode", True),
        ("cluster_not_found", True),
        ("fault_filter_abort", True),
        ("", False),
        (7, False),
    ],
)
def test_errors_that_no_endpoint_had_a_part_in_are_the_gateways(
    details: str | float, own: bool
) -> None:
    message = wire.ProcessingRequest()
    message.attributes["envoy.filters.http.ext_proc"].update({"response.code_details": details})
    assert messages.is_gateways_own(message) is own


def test_an_error_that_nothing_is_said_of_is_an_endpoints() -> None:
    message = wire.ProcessingRequest()
    assert not messages.is_gateways_own(message)
    message.attributes["envoy.filters.http.ext_proc"].update({"upstream.address": "10.0.0.1:80"})
    assert not messages.is_gateways_own(message)
