"""The corners of HTTP that reach model servers through a real Envoy, in both failure modes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.fakes.metrics.samples import sum_of
from tests.fakes.programs.processes import MODEL, Simulator
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.scripted_server import EVENT_STREAM, Gate, Received, Reply, ScriptedServer
from tests.fakes.programs.stack import MakeStack, Stack
from tests.fakes.transport.raw_http import Http2Connection, connected, read_head, read_response

pytestmark = pytest.mark.e2e

CHAT_PATH = "/v1/chat/completions"
CHAT = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}).encode()
STREAMED_CHAT = CHAT[:-1] + b', "stream": true}'
JSON = {"content-type": "application/json"}
PIECES = [CHAT[:5], CHAT[5:20], CHAT[20:]]
STREAMS = "llm_d_epp_extproc_streams_inflight"
IN_FLIGHT = "epp_requests_in_flight"
MORE_THAN_ENVOYS_DEFAULT = 1_200


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_a_body_without_a_length_arrives_whole(
    scripted_stack: Stack, model_server: ScriptedServer, http2: bool
) -> None:
    with httpx.Client(http1=not http2, http2=http2) as client:
        answer = client.post(f"{scripted_stack.url}{CHAT_PATH}", content=iter(PIECES), headers=JSON)

    assert answer.status_code == 200
    assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
    assert [request.body for request in model_server.received] == [CHAT]


def test_trailers_of_an_http1_request_arrive(
    scripted_stack: Stack, model_server: ScriptedServer
) -> None:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in PIECES)
    head = f"POST {CHAT_PATH} HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n"

    with connected(scripted_stack.url) as connection:
        connection.sendall(head.encode() + b"trailer: x-checksum\r\n\r\n")
        connection.sendall(chunks + b"0\r\nx-checksum: abc\r\n\r\n")
        status, _ = read_response(connection)

    assert status == 200
    assert [request.body for request in model_server.received] == [CHAT]
    assert [request.trailers for request in model_server.received] == [{"x-checksum": "abc"}]


def test_trailers_of_an_http2_request_arrive(
    scripted_stack: Stack, model_server: ScriptedServer
) -> None:
    with connected(scripted_stack.url) as connection:
        client = Http2Connection(connection)
        stream = client.post(CHAT_PATH, JSON, *PIECES, trailers={"x-checksum": "abc"})
        while not stream.ended:
            client.receive()

    assert stream.status == 200
    assert [request.body for request in model_server.received] == [CHAT]
    assert [request.trailers for request in model_server.received] == [{"x-checksum": "abc"}]


def test_a_client_that_waits_for_100_continue_gets_it(
    scripted_stack: Stack, model_server: ScriptedServer
) -> None:
    head = f"POST {CHAT_PATH} HTTP/1.1\r\nhost: test\r\ncontent-length: {len(CHAT)}\r\n"

    with connected(scripted_stack.url) as connection:
        connection.sendall(head.encode() + b"expect: 100-continue\r\n\r\n")
        interim = read_head(connection)
        connection.sendall(CHAT)
        status, _ = read_response(connection)

    assert interim.startswith(b"HTTP/1.1 100 Continue\r\n")
    assert status == 200
    assert [request.body for request in model_server.received] == [CHAT]


def test_a_request_id_that_is_not_utf8_is_the_clients_own_affair(
    scripted_stack: Stack, model_server: ScriptedServer
) -> None:
    head = f"POST {CHAT_PATH} HTTP/1.1\r\nhost: test\r\ncontent-length: {len(CHAT)}\r\n"

    with connected(scripted_stack.url) as connection:
        connection.sendall(head.encode() + b"x-request-id: t-\xff\r\n\r\n" + CHAT)
        status, _ = read_response(connection)

    assert status == 200
    assert [request.body for request in model_server.received] == [CHAT]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_body_in_chunks_that_has_nothing_in_it_is_none(
    scripted_stack: Stack, model_server: ScriptedServer, method: str
) -> None:
    head = f"{method} {CHAT_PATH} HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n"

    with connected(scripted_stack.url) as connection:
        connection.sendall(head.encode() + b"0\r\n\r\n")
        status, _ = read_response(connection)

    assert status == 200
    assert [request.method for request in model_server.received] == [method]


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "POST"])
def test_a_request_without_a_body_is_routed(
    scripted_stack: Stack, model_server: ScriptedServer, method: str
) -> None:
    answer = httpx.request(method, f"{scripted_stack.url}{CHAT_PATH}")

    assert answer.status_code == 200
    assert answer.content == (b"" if method == "HEAD" else b"{}")
    assert answer.headers["content-type"] == "application/json"
    received = [(request.method, request.body) for request in model_server.received]
    assert received == [(method, b"")]


def test_events_arrive_one_by_one(scripted_stack: Stack, model_server: ScriptedServer) -> None:
    gates = [Gate(), Gate()]

    def stream_behind_gates(request: Received, reply: Reply) -> None:
        reply.start(EVENT_STREAM)
        for number, gate in enumerate(gates):
            reply.piece(b"data: %d\n\n" % number)
            gate.wait()
        reply.piece(b"data: [DONE]\n\n")
        reply.end()

    model_server.script = stream_behind_gates
    url = f"{scripted_stack.url}{CHAT_PATH}"
    with httpx.stream("POST", url, content=STREAMED_CHAT, timeout=20) as answer:
        events = answer.iter_raw()
        arrived = []
        for gate in gates:
            arrived.append(next(events))
            gate.open()
        arrived += events

    assert answer.headers["content-type"] == "text/event-stream"
    assert arrived == [b"data: 0\n\n", b"data: 1\n\n", b"data: [DONE]\n\n"]


@pytest.fixture
def endless_simulator(tmp_path: Path) -> Iterator[Simulator]:
    """A model server whose second token never comes."""
    sequences = MORE_THAN_ENVOYS_DEFAULT
    flags = ["--inter-token-latency=1h", f"--max-num-seqs={sequences}"]
    flags.append(f"--kv-cache-size={10 * sequences}")
    simulator = Simulator("endless", tmp_path, flags)
    simulator.start()
    yield simulator
    simulator.kill()


def running(simulator: Simulator) -> float:
    page = httpx.get(f"http://{simulator.address()}/metrics").text
    return sum_of(page, "vllm:num_requests_running")


@pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])
def test_a_client_that_leaves_in_mid_stream_frees_everything(
    make_stack: MakeStack, endless_simulator: Simulator, fail_open: bool
) -> None:
    stack = make_stack(servers=[endless_simulator.address()], fail_open=fail_open)

    def is_held(number: int) -> bool:
        in_flight = stack.picker.value_of(IN_FLIGHT)
        return in_flight == number == running(endless_simulator)

    with connected(stack.url) as connection:
        client = Http2Connection(connection)
        streams = [client.post(CHAT_PATH, JSON, STREAMED_CHAT) for _ in range(3)]
        while not all(stream.body for stream in streams):
            client.receive()
        assert is_held(3)
        client.reset(streams[1])
        wait_until(lambda: is_held(2), "the stream that was reset is forgotten")
    wait_until(lambda: is_held(0), "all streams are forgotten with their connection")

    assert stack.picker.value_of("llm_d_epp_request_running") == 0
    terminations = 'epp_request_terminations_total{cause="client-disconnect"} 3'
    assert terminations in stack.picker.metrics()


def test_a_client_that_leaves_before_the_response_frees_everything(
    scripted_stack: Stack, model_server: ScriptedServer
) -> None:
    picker, gate = scripted_stack.picker, Gate()
    wait_until(lambda: picker.value_of(IN_FLIGHT) == 0, "no request of other tests")

    def answer_behind_gate(request: Received, reply: Reply) -> None:
        gate.wait()
        reply.whole()

    model_server.script = answer_behind_gate
    head = f"POST {CHAT_PATH} HTTP/1.1\r\nhost: test\r\ncontent-length: {len(CHAT)}\r\n\r\n"

    with connected(scripted_stack.url) as connection:
        connection.sendall(head.encode() + CHAT)
        wait_until(lambda: len(model_server.received) == 1, "the request")
        assert picker.value_of(IN_FLIGHT) == 1
        assert picker.value_of("llm_d_epp_request_running") == 1
    wait_until(lambda: picker.value_of(IN_FLIGHT) == 0, "nothing in flight")
    gate.open()

    assert picker.value_of("llm_d_epp_request_running") == 0


def test_a_client_that_leaves_before_the_pick_frees_everything(
    scripted_stack: Stack, model_server: ScriptedServer
) -> None:
    picker = scripted_stack.picker
    wait_until(lambda: picker.value_of(STREAMS) == 0, "no stream of other tests")
    head = f"POST {CHAT_PATH} HTTP/1.1\r\nhost: test\r\ncontent-length: {len(CHAT)}\r\n\r\n"

    with connected(scripted_stack.url) as connection:
        connection.sendall(head.encode() + CHAT[:10])
        wait_until(lambda: picker.value_of(STREAMS) == 1, "the picker knows of the request")
    wait_until(lambda: picker.value_of(STREAMS) == 0, "the picker forgot the request")

    assert picker.value_of(IN_FLIGHT) == 0
    assert model_server.received == []


@pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])
def test_more_streams_are_held_than_envoys_circuit_breakers_allow_by_default(
    make_stack: MakeStack, endless_simulator: Simulator, fail_open: bool
) -> None:
    """Pitfall 54."""
    stack = make_stack(servers=[endless_simulator.address()], fail_open=fail_open)

    with ExitStack() as connections:
        clients = [
            Http2Connection(connections.enter_context(connected(stack.url))) for _ in range(4)
        ]
        for client in clients:
            streams = [
                client.post(CHAT_PATH, JSON, STREAMED_CHAT)
                for _ in range(MORE_THAN_ENVOYS_DEFAULT // len(clients))
            ]
            while not all(stream.body for stream in streams):
                client.receive()
            assert {stream.status for stream in streams} == {200}
        assert stack.picker.value_of(IN_FLIGHT) == MORE_THAN_ENVOYS_DEFAULT
        assert running(endless_simulator) == MORE_THAN_ENVOYS_DEFAULT
    wait_until(lambda: stack.picker.value_of(IN_FLIGHT) == 0, "nothing in flight")
    wait_until(lambda: running(endless_simulator) == 0, "nothing generated")
