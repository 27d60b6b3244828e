"""The messages of one request as a gateway sends them, made once and sent many times."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from epp.wire import ext_proc_pb2 as wire

PIECE_BYTES = 64 * 1024
"""Of request bodies, as they come from the gateway."""
FULL_DUPLEX = "FULL_DUPLEX_STREAMED"
STREAMED = "STREAMED"

_REQUEST_HEADERS = {
    ":method": "POST",
    ":scheme": "http",
    ":authority": "gateway.example",
    ":path": "/v1/chat/completions",
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "gzip, deflate",
    "authorization": "Bearer 0123456789abcdef0123456789abcdef",
    "user-agent": "OpenAI/Python 3.57.0",
    "x-forwarded-for": "10.1.2.3",
    "x-forwarded-proto": "http",
    "x-envoy-expected-rq-timeout-ms": "15000",
    "x-stainless-lang": "python",
    "x-stainless-retry-count": "0",
}
_RESPONSE_HEADERS = {
    ":status": "200",
    "content-type": "text/event-stream; charset=utf-8",
    "date": "Mon, 01 Jan 2035 00:00:00 GMT",
    "server": "uvicorn",
    "x-envoy-upstream-service-time": "12",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """One request and its response."""

    request: tuple[bytes, ...]
    """Messages up to the decision."""
    response: tuple[bytes, ...]
    """The rest; each is answered once."""


def sentences(length: int) -> str:
    """A prompt of that many bytes, the same one each time."""
    sentence = "the quick brown fox jumps over the lazy dog; "
    return (sentence * (length // len(sentence) + 1))[:length]


def traffic(
    body_bytes: int,
    chunks: int,
    mode: str,
    *,
    prompt: Callable[[int], str] = sentences,
    request_id: str = "1b4e28ba-2fa1-4d2e-883f-0016d3cca427",
) -> Traffic:
    """A chat request with a body of about `body_bytes`, answered in `chunks` pieces.

    Without chunks it is what a gateway sends that shows no response bodies.
    """
    body = _chat(body_bytes, prompt)
    headers = _message(
        "request_headers", headers=_header_map(_REQUEST_HEADERS | {"x-request-id": request_id})
    )
    modes: Any = {"request_body_mode": mode, "response_body_mode": mode if chunks else "NONE"}
    headers.protocol_config.MergeFrom(wire.ProtocolConfiguration(**modes))
    pieces = [body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES)]
    bodies = [
        _message("request_body", body=piece, end_of_stream=piece is pieces[-1]) for piece in pieces
    ]
    response = [_message("response_headers", headers=_header_map(_RESPONSE_HEADERS))]
    response += [_message("response_body", body=_event(number)) for number in range(chunks - 1)]
    if chunks:
        response.append(_message("response_body", body=_last_event(chunks), end_of_stream=True))
    return Traffic(
        request=tuple(message.SerializeToString() for message in (headers, *bodies)),
        response=tuple(message.SerializeToString() for message in response),
    )


def _message(kind: str, **parts: Any) -> wire.ProcessingRequest:
    part: Any = {kind: parts}
    return wire.ProcessingRequest(**part)


def _header_map(headers: dict[str, str]) -> wire.HeaderMap:
    return wire.HeaderMap(
        headers=[
            wire.HeaderValue(key=name, raw_value=value.encode()) for name, value in headers.items()
        ]
    )


def _chat(size: int, prompt: Callable[[int], str]) -> bytes:
    def body(text: str) -> bytes:
        request = {
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "messages": [
                {"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": text},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return json.dumps(request, ensure_ascii=False).encode()

    return body(prompt(max(size - len(body("")), 0)))


def _event(number: int, **more: object) -> bytes:
    chunk = {
        "id": "chatcmpl-0123456789",
        "object": "chat.completion.chunk",
        "created": 2051222400,
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "choices": [{"index": 0, "delta": {"content": f" token{number}"}, "finish_reason": None}],
    }
    return b"data: " + json.dumps(chunk | more).encode() + b"\n\n"


def _last_event(tokens: int) -> bytes:
    usage = {"prompt_tokens": 20, "completion_tokens": tokens, "total_tokens": 20 + tokens}
    return _event(tokens, choices=[], usage=usage) + b"data: [DONE]\n\n"
