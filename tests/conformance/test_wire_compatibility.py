"""Our message definitions are Envoy's on the wire; envoy-data-plane is the oracle."""

from __future__ import annotations

from envoy_data_plane.envoy.config.core.v3 import HeaderMap, HeaderValue, Metadata
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import ProcessingModeBodySendMode
from envoy_data_plane.envoy.service.ext_proc import v3 as envoy
from envoy_data_plane.google.protobuf import Struct
from hypothesis import given, settings
from hypothesis import strategies as st

from epp.framework.errors import DropReason, ErrorCode, Rejection
from epp.gateway import messages, replies
from epp.gateway.body_messages import response_body_chunks
from epp.wire import ext_proc_pb2 as wire

tokens = st.text("abcdefghijklmnopqrstuvwxyz-:", min_size=1, max_size=20)
values = st.binary(max_size=40)
header_maps = st.lists(st.tuples(tokens, values), max_size=6)


def envoy_headers(pairs: list[tuple[str, bytes]]) -> HeaderMap:
    return HeaderMap(headers=[HeaderValue(key=key, raw_value=value) for key, value in pairs])


@settings(deadline=None)
@given(pairs=header_maps, end=st.booleans(), observing=st.booleans())
def test_request_headers_are_read_as_envoy_writes_them(
    pairs: list[tuple[str, bytes]], end: bool, observing: bool
) -> None:
    sent = envoy.ProcessingRequest(
        request_headers=envoy.HttpHeaders(headers=envoy_headers(pairs), end_of_stream=end),
        observability_mode=observing,
        protocol_config=envoy.ProtocolConfiguration(
            request_body_mode=ProcessingModeBodySendMode.BUFFERED,
            response_body_mode=ProcessingModeBodySendMode.FULL_DUPLEX_STREAMED,
        ),
    )
    read = wire.ProcessingRequest.FromString(bytes(sent))
    assert read.WhichOneof("request") == "request_headers"
    assert list(messages.read_headers(read.request_headers.headers)) == pairs
    assert read.request_headers.end_of_stream == end
    assert read.observability_mode == observing
    assert read.protocol_config.request_body_mode == wire.ProtocolConfiguration.BUFFERED
    assert (
        read.protocol_config.response_body_mode == wire.ProtocolConfiguration.FULL_DUPLEX_STREAMED
    )


@settings(deadline=None)
@given(body=st.binary(max_size=500), end=st.booleans())
def test_bodies_and_trailers_are_read_as_envoy_writes_them(body: bytes, end: bool) -> None:
    for part in ("request_body", "response_body"):
        sent = envoy.ProcessingRequest()
        setattr(sent, part, envoy.HttpBody(body=body, end_of_stream=end))
        read = wire.ProcessingRequest.FromString(bytes(sent))
        assert read.WhichOneof("request") == part
        assert (getattr(read, part).body, getattr(read, part).end_of_stream) == (body, end)
    for part in ("request_trailers", "response_trailers"):
        sent = envoy.ProcessingRequest()
        setattr(sent, part, envoy.HttpTrailers())
        assert wire.ProcessingRequest.FromString(bytes(sent)).WhichOneof("request") == part


def test_a_subset_hint_is_read_as_envoy_writes_it() -> None:
    hint = {"x-gateway-destination-endpoint-subset": ["10.0.0.1:80", "10.0.0.2"]}
    sent = envoy.ProcessingRequest(
        request_body=envoy.HttpBody(),
        metadata_context=Metadata(filter_metadata={"envoy.lb.subset_hint": Struct.from_dict(hint)}),
    )
    read = wire.ProcessingRequest.FromString(bytes(sent))
    assert messages.subset_hint(read.metadata_context) == (True, ["10.0.0.1:80", "10.0.0.2"])


@settings(deadline=None)
@given(body=st.binary(max_size=500), end=st.booleans())
def test_envoy_reads_body_answers_as_we_mean_them(body: bytes, end: bool) -> None:
    [data] = response_body_chunks(body, end=end)
    read = envoy.ProcessingResponse.parse(data)
    assert read.response_body is not None
    assert read.response_body.response is not None
    mutation = read.response_body.response.body_mutation
    assert mutation is not None
    assert mutation.streamed_response is not None
    assert mutation.streamed_response.body == body
    assert mutation.streamed_response.end_of_stream == end


def test_envoy_reads_a_decision_as_we_mean_it() -> None:
    data = messages.request_answer(
        {"x-gateway-destination-endpoint": b"10.0.0.1:80", "x-slo-ttft-ms": None},
        "10.0.0.1:80",
        on_headers=True,
    )
    read = envoy.ProcessingResponse.parse(data)
    assert read.request_headers is not None
    common = read.request_headers.response
    assert common is not None
    assert common.clear_route_cache
    assert common.header_mutation is not None
    [option] = common.header_mutation.set_headers
    assert option.append is None
    assert option.append_action.name == "OVERWRITE_IF_EXISTS_OR_ADD"
    assert option.header is not None
    assert (option.header.key, option.header.raw_value) == (
        "x-gateway-destination-endpoint",
        b"10.0.0.1:80",
    )
    assert common.header_mutation.remove_headers == ["x-slo-ttft-ms"]
    assert read.dynamic_metadata is not None
    assert read.dynamic_metadata.to_dict() == {
        "envoy.lb": {"x-gateway-destination-endpoint": "10.0.0.1:80"}
    }


def test_envoy_reads_a_rejection_as_we_mean_it() -> None:
    rejection = Rejection(
        ErrorCode.SERVICE_UNAVAILABLE,
        "none",
        drop_reason=DropReason.NO_ENDPOINTS,
        retry_after=1,
    )
    read = envoy.ProcessingResponse.parse(replies.immediate_response(rejection, is_grpc=True))
    immediate = read.immediate_response
    assert immediate is not None
    assert immediate.status is not None
    assert immediate.status.code.value == 503
    assert immediate.body == b"inference error: ServiceUnavailable - none"
    assert immediate.details == "epp_rejected_no_endpoints"
    assert immediate.grpc_status is not None
    assert immediate.grpc_status.status == 14


def test_unknown_fields_are_skipped() -> None:
    sent = envoy.ProcessingRequest(
        request_body=envoy.HttpBody(body=b"x", end_of_stream_without_message=True)
    )
    assert wire.ProcessingRequest.FromString(bytes(sent)).request_body.body == b"x"
