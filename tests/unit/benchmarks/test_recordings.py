from __future__ import annotations

import base64
import json

import pytest

from epp.wire import ext_proc_pb2 as wire
from tests.benchmarks.recordings import GROUPS, MARK, recording


def messages(encoded: list[str]) -> list[wire.ProcessingRequest]:
    return [wire.ProcessingRequest.FromString(base64.b64decode(message)) for message in encoded]


@pytest.mark.parametrize("kib", [1, 16, 128])
def test_each_request_has_a_valid_body_of_the_size_and_one_mark_in_it(kib: int) -> None:
    requests = json.loads(recording(kib * 1024, 5))["requests"]

    assert len(requests) == GROUPS
    for request in requests:
        pieces = [message.request_body.body for message in messages(request)[1:]]
        body = b"".join(pieces)
        assert len(body) == kib * 1024
        assert json.loads(body)["stream"] is True
        assert [piece.count(MARK.encode()) for piece in pieces].count(1) == 1


def test_requests_of_two_groups_begin_differently() -> None:
    first, second = json.loads(recording(1024, 5))["requests"][:2]

    assert first[1][200:400] != second[1][200:400]


def test_a_response_has_its_headers_and_as_many_chunks() -> None:
    response = messages(json.loads(recording(1024, 3))["response"])

    assert [message.WhichOneof("request") for message in response] == [
        "response_headers",
        "response_body",
        "response_body",
        "response_body",
    ]
    assert response[-1].response_body.end_of_stream


def test_without_chunks_the_gateway_shows_no_response_body() -> None:
    read = json.loads(recording(1024, 0))

    headers = messages(read["requests"][0])[0]
    assert headers.protocol_config.response_body_mode == 0
    assert len(read["response"]) == 1
