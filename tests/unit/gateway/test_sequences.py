"""Any sequence of well-formed messages gets a legal sequence of answers and its bytes back.

A checker plays the gateway: it knows what it may be told at which point, as Envoy does.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from epp.app.request_path import RequestPath, RequestPathSettings, build_request_path
from epp.config.assembly import assemble
from epp.config.loader import load_config
from epp.config.plugin_registry import PluginRegistry
from epp.datastore.datastore import Datastore
from epp.gateway.stream import Transaction
from epp.observability.metrics import Metrics
from epp.request_control.plan import RequestPlan
from epp.transport.streams import StatusCode
from tests.fakes.pickers.collecting_outlet import CollectingOutlet
from tests.fakes.pickers.gateway_client import Answer, body_modes, header_map, processing_request
from tests.fakes.pickers.picker import pods, pool
from tests.fakes.pickers.simple_plan import simple_plan

FULL_DUPLEX = "FULL_DUPLEX_STREAMED"
MODES = ["NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", FULL_DUPLEX]
ADDRESS = "10.0.0.1:8000"


@dataclass
class Picker:
    path: RequestPath
    datastore: Datastore

    @property
    def in_flight(self) -> int:
        return sum(each.load.in_flight for each in self.datastore.snapshot().endpoints)


def make_picker(
    settings: RequestPathSettings | None = None,
    config: str | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Picker:
    datastore = Datastore()
    datastore.set_pool(pool())
    datastore.set_pods(pods([ADDRESS]))
    datastore.mark_synced()
    metrics, rng = Metrics(), random.Random(1)
    plan = simple_plan(metrics, rng) if config is None else configured_plan(config, metrics, rng)
    path = build_request_path(
        datastore, metrics, settings or RequestPathSettings(), plan=plan, rng=rng, now=now
    )
    return Picker(path, datastore)


def configured_plan(config: str, metrics: Metrics, rng: random.Random) -> RequestPlan:
    registry = PluginRegistry.installed()
    return assemble(load_config(config), registry, metrics=metrics, rng=rng).plan


class Gateway:
    """Sends messages of one stream and holds the answers to what a gateway accepts."""

    def __init__(
        self,
        picker: Picker,
        request_mode: str,
        response_mode: str,
        outlet: CollectingOutlet | None = None,
    ) -> None:
        self.request_mode, self.response_mode = request_mode, response_mode
        self.outlet = outlet or CollectingOutlet()
        self.transaction: Transaction = picker.path.processor(self.outlet)
        self._first = True

    def message(self, kind: str, **parts: Any) -> bytes:
        """A message with what only the first one of a stream has."""
        message = processing_request(kind, **parts)
        if self._first:
            self._first = False
            modes = body_modes(self.request_mode, self.response_mode)
            message.protocol_config.CopyFrom(modes)
            message.protocol_config.SetInParent()
        return message.SerializeToString()

    def send(self, kind: str, **parts: Any) -> list[Answer]:
        self.transaction.on_message(self.message(kind, **parts))
        return self.outlet.take()


def cut(body: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({place % (len(body) + 1) for place in cuts})
    edges = [0, *places, len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def pieces_of(body: bytes, cuts: Sequence[int], mode: str) -> list[bytes]:
    return [body] if mode.startswith("BUFFERED") else cut(body, cuts)


def play_request(gateway: Gateway, path: str, body: bytes, cuts: list[int], ending: str) -> bytes:
    """Send a request; returns the bytes the upstream gets."""
    mode, answers, upstream = gateway.request_mode, [], b""
    headers = header_map({":method": "POST", ":path": path, "x-request-id": "t"})
    answers += gateway.send("request_headers", headers=headers, end_of_stream=ending == "headers")
    if ending == "headers" or mode in ("NONE", "STREAMED"):
        assert_decided(answers, "request_headers")
    elif mode == FULL_DUPLEX:
        assert answers == []
    else:
        assert answers == [Answer(kind="request_headers")]
    if ending == "headers" or mode == "NONE":
        return body
    pieces = pieces_of(body, cuts, mode)
    if ending == "empty chunk" and mode in (FULL_DUPLEX, "STREAMED"):
        pieces.append(b"")
    returned: list[Answer] = []
    for index, piece in enumerate(pieces):
        end = index == len(pieces) - 1 and ending != "trailers"
        answers = gateway.send("request_body", body=piece, end_of_stream=end)
        if mode == FULL_DUPLEX:
            assert end or answers == []
            returned += answers
        elif mode == "STREAMED":
            assert answers == [Answer(kind="request_body")]
            upstream += piece
        else:
            assert_decided(answers, "request_body")
            upstream += piece
    if ending == "trailers":
        answers = gateway.send("request_trailers")
        assert answers[-1] == Answer(kind="request_trailers")
        assert mode == FULL_DUPLEX or len(answers) == 1
        returned += answers[:-1]
    if mode == FULL_DUPLEX:
        assert_decided(returned[:1], "request_headers")
        upstream = assert_returned(returned[1:], "request_body", ended=ending != "trailers")
    return upstream


def assert_decided(answers: list[Answer], kind: str) -> None:
    [answer] = answers
    assert answer.kind == kind
    assert answer.destination == ADDRESS
    assert not answer.streamed


def assert_returned(answers: list[Answer], kind: str, *, ended: bool) -> bytes:
    assert answers, "no body answer at all"
    assert all(answer.kind == kind and answer.streamed for answer in answers)
    assert all(len(answer.body or b"") <= 62_000 for answer in answers)
    assert [answer.end for answer in answers] == [False] * (len(answers) - 1) + [ended]
    return b"".join(answer.body or b"" for answer in answers)


def play_response(gateway: Gateway, media: str, body: bytes, cuts: list[int], ending: str) -> bytes:
    """Send a response; returns the bytes the client gets."""
    mode, client = gateway.response_mode, b""
    headers = header_map({":status": "200", "content-type": media})
    answers = gateway.send("response_headers", headers=headers, end_of_stream=ending == "headers")
    assert [answer.kind for answer in answers] == ["response_headers"]
    if ending == "headers" or mode == "NONE":
        return body
    pieces = pieces_of(body, cuts, mode)
    for index, piece in enumerate(pieces):
        end = index == len(pieces) - 1 and ending != "trailers"
        answers = gateway.send("response_body", body=piece, end_of_stream=end)
        if mode == FULL_DUPLEX:
            client += assert_returned(answers, "response_body", ended=end)
        else:
            assert answers == [Answer(kind="response_body")]
            client += piece
    if ending == "trailers":
        assert gateway.send("response_trailers") == [Answer(kind="response_trailers")]
    return client


prompts = st.text(min_size=1, max_size=200) | st.integers(60_000, 130_000).map("x".__mul__)
chats = prompts.map(lambda text: json.dumps({"model": "m", "prompt": text}).encode())
places = st.lists(st.integers(0, 200_000), max_size=6)
endings = st.sampled_from(["headers", "last chunk", "empty chunk", "trailers"])


@settings(max_examples=150, deadline=None)
@given(
    request_mode=st.sampled_from(MODES),
    response_mode=st.sampled_from(MODES),
    parsed=st.booleans(),
    body=chats,
    raw=st.binary(max_size=200),
    cuts=places,
    ending=endings,
    media=st.sampled_from(["application/json", "text/event-stream", "text/plain"]),
    response=st.binary(max_size=300) | st.integers(60_000, 130_000).map(bytes),
    response_cuts=places,
    response_ending=endings,
)
@example(
    request_mode=FULL_DUPLEX,
    response_mode=FULL_DUPLEX,
    parsed=True,
    body=b'{"model":"m","prompt":"a"}',
    raw=b"",
    cuts=[5],
    ending="trailers",
    media="text/event-stream",
    response=b"data: {}\n\n",
    response_cuts=[3],
    response_ending="trailers",
)
def test_any_chunking_in_any_mode_gets_legal_answers_and_its_bytes_back(
    request_mode: str,
    response_mode: str,
    parsed: bool,
    body: bytes,
    raw: bytes,
    cuts: list[int],
    ending: str,
    media: str,
    response: bytes,
    response_cuts: list[int],
    response_ending: str,
) -> None:
    async def play() -> None:
        picker = make_picker()
        gateway = Gateway(picker, request_mode, response_mode)
        path, sent = ("/v1/completions", body) if parsed else ("/other", raw)
        assert play_request(gateway, path, sent, cuts, ending) == sent
        assert picker.in_flight == 1
        assert play_response(gateway, media, response, response_cuts, response_ending) == response
        assert picker.in_flight == 0
        gateway.transaction.on_half_close()
        assert gateway.outlet.code is StatusCode.OK
        assert (picker.path.guard.streams, picker.path.guard.buffered_bytes) == (0, 0)

    asyncio.run(play())


def headers_message(end: bool, status: str) -> dict[str, Any]:
    headers = header_map({":method": "POST", ":path": "/v1/completions", ":status": status})
    return {"headers": headers, "end_of_stream": end}


messages = st.one_of(
    st.builds(
        lambda kind, end: (kind, headers_message(end, "200")),
        st.sampled_from(["request_headers", "response_headers"]),
        st.booleans(),
    ),
    st.builds(
        lambda kind, body, end: (kind, {"body": body, "end_of_stream": end}),
        st.sampled_from(["request_body", "response_body"]),
        st.sampled_from([b"", b"{", b'{"model":"m","prompt":"a"}', b"x" * 70_000]),
        st.booleans(),
    ),
    st.tuples(st.sampled_from(["request_trailers", "response_trailers"]), st.just({})),
)


@settings(max_examples=300, deadline=None)
@given(
    request_mode=st.sampled_from(MODES),
    response_mode=st.sampled_from(MODES),
    sequence=st.lists(messages, max_size=12),
    ending=st.sampled_from(["half-close", "disconnect"]),
)
def test_any_order_of_messages_ends_cleanly_and_in_order(
    request_mode: str, response_mode: str, sequence: list[tuple[str, Any]], ending: str
) -> None:
    async def play() -> None:
        picker = make_picker()
        gateway = Gateway(picker, request_mode, response_mode)
        answers: list[Answer] = []
        for kind, parts in sequence:
            if gateway.outlet.code is not None:
                break
            answers += gateway.send(kind, **parts)
        if ending == "half-close":
            gateway.transaction.on_half_close()
            assert gateway.outlet.code is not None
        else:
            gateway.transaction.on_disconnect()
        answers += gateway.outlet.take()
        assert gateway.outlet.code in (
            None,
            StatusCode.OK,
            StatusCode.CANCELLED,
            StatusCode.INVALID_ARGUMENT,
        )
        modes = {"request": request_mode, "response": response_mode}
        assert_in_order(answers, [kind for kind, _ in sequence], modes)
        assert picker.in_flight == 0
        assert (picker.path.guard.streams, picker.path.guard.buffered_bytes) == (0, 0)

    asyncio.run(play())


def assert_in_order(answers: list[Answer], sent: list[str], modes: dict[str, str]) -> None:
    kinds = [answer.kind for answer in answers]
    if "immediate_response" in kinds:
        assert kinds.index("immediate_response") == len(kinds) - 1
    for side, mode in modes.items():
        parts = [f"{side}_headers", f"{side}_body", f"{side}_trailers"]
        ours = [kind for kind in kinds if kind in parts]
        if mode == FULL_DUPLEX:
            assert ours == sorted(ours, key=parts.index)
            ends = [answer.end for answer in answers if answer.kind == parts[1]]
            assert True not in ends[:-1], "something follows the end of a body"
        else:
            assert all(kinds.count(part) <= sent.count(part) for part in parts)


@settings(max_examples=200, deadline=None)
@given(junk=st.lists(st.binary(max_size=60), min_size=1, max_size=4))
def test_arbitrary_bytes_are_a_violation_or_a_message_but_never_an_exception(
    junk: list[bytes],
) -> None:
    async def play() -> None:
        picker = make_picker()
        gateway = Gateway(picker, FULL_DUPLEX, FULL_DUPLEX)
        for data in junk:
            gateway.transaction.on_message(data)
        gateway.transaction.on_disconnect()
        assert picker.in_flight == 0
        assert (picker.path.guard.streams, picker.path.guard.buffered_bytes) == (0, 0)

    asyncio.run(play())
