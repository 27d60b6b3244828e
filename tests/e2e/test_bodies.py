"""Bodies on their way to the model server and back, through a real Envoy."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from epp.standalone.envoy_config import MEBIBYTE
from tests.fakes.programs.processes import MODEL
from tests.fakes.programs.program import Program, wait_until
from tests.fakes.programs.scripted_server import Received, Reply, ScriptedServer
from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e

SIZES = [0, 1, 62_000, 62_001, 1_500_000]
ODD_JSON = Path(__file__).parents[1] / "samples/requests/chat_odd_formatting.json"
CLIENTS_MODEL = "acme/chat-32b"
REWRITE = {"x-llm-d-model-name-rewrite": MODEL}
JSON = {"content-type": "application/json"}
CHAT: dict[str, Any] = {
    "model": CLIENTS_MODEL,
    "messages": [{"role": "user", "content": "Hello"}],
}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60) as client:
        yield client


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process has in RAM, and the most it ever had."""

    resident: int
    peak: int

    @classmethod
    def of(cls, program: Program) -> Self:
        """Ask the kernel."""
        lines = Path(f"/proc/{program.pid}/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in lines)
        resident, peak = (int(values[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        return cls(resident, peak)


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_goes_there_and_back_unchanged(
    stack: Stack, client: httpx.Client, size: int
) -> None:
    body = noise(size)

    answer = client.post(f"{stack.url}/echo", content=body)

    assert answer.status_code == 200
    assert answer.headers["x-echo-length"] == str(size)
    assert answer.headers["x-echo-sha256"] == sha256(body)
    assert answer.content == body


def test_json_is_forwarded_as_it_was_written(stack: Stack, client: httpx.Client) -> None:
    body = ODD_JSON.read_bytes()

    answer = client.post(f"{stack.url}/echo/v1/chat/completions", content=body, headers=JSON)

    assert answer.status_code == 200
    assert answer.headers["x-echo-sha256"] == sha256(body)
    assert answer.content == body


def test_a_rewrite_changes_the_model_and_nothing_else(stack: Stack, client: httpx.Client) -> None:
    body = ODD_JSON.read_bytes()
    rewritten = body.replace(CLIENTS_MODEL.encode(), MODEL.encode())

    answer = client.post(
        f"{stack.url}/echo/v1/chat/completions", content=body, headers=JSON | REWRITE
    )

    assert rewritten != body
    assert answer.headers["x-echo-sha256"] == sha256(rewritten)
    assert answer.content == body


def test_the_answer_names_the_model_the_client_asked_for(
    stack: Stack, client: httpx.Client
) -> None:
    refused = client.post(f"{stack.url}/v1/chat/completions", json=CHAT)
    answer = client.post(f"{stack.url}/v1/chat/completions", json=CHAT, headers=REWRITE)

    assert refused.status_code == 404
    assert answer.status_code == 200
    assert answer.json()["model"] == CLIENTS_MODEL


def test_every_event_names_the_model_the_client_asked_for(
    stack: Stack, client: httpx.Client
) -> None:
    chat = CHAT | {"stream": True, "stream_options": {"include_usage": True}}

    answer = client.post(f"{stack.url}/v1/chat/completions", json=chat, headers=REWRITE)

    *events, last = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert last == "[DONE]"
    assert len(events) > 2
    assert {json.loads(event)["model"] for event in events} == {CLIENTS_MODEL}


def test_an_upload_of_audio_passes_through(stack: Stack, client: httpx.Client) -> None:
    audio = noise(2_000_000)

    answer = client.post(
        f"{stack.url}/echo/v1/audio/transcriptions",
        files={"file": ("speech.wav", audio, "audio/wav")},
        data={"model": "whisper", "response_format": "srt"},
    )

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert answer.headers["x-echo-sha256"] == sha256(answer.content)
    assert audio in answer.content


@pytest.mark.parametrize("headers", [{}, REWRITE], ids=["model as asked", "model rewritten"])
def test_an_answer_in_plain_text_is_relayed(
    scripted_stack: Stack,
    model_server: ScriptedServer,
    client: httpx.Client,
    headers: dict[str, str],
) -> None:
    subtitles = b"1\n00:00:00,000 --> 00:00:01,000\nGr\xfc\xdfe, no UTF-8\n"

    def answer_subtitles(request: Received, reply: Reply) -> None:
        reply.start({"content-type": "text/plain; charset=latin-1"})
        reply.piece(subtitles[:20])
        reply.piece(subtitles[20:])
        reply.end()

    model_server.script = answer_subtitles
    answer = client.post(f"{scripted_stack.url}/v1/chat/completions", json=CHAT, headers=headers)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=latin-1"
    assert answer.content == subtitles


def pieces_of(body: bytes) -> Iterator[bytes]:
    """A body whose length is not told in advance."""
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]


def ends_of_413(stack: Stack) -> list[str]:
    """Who said that a body is too large, by Envoy's access log."""
    lines = [json.loads(line) for line in stack.access_log.read_text().splitlines()]
    return [line["details"] for line in lines if line["code"] == 413]


@pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])
def test_a_body_over_the_cap_is_refused_by_whoever_sees_it_first(
    make_stack: MakeStack, client: httpx.Client, fail_open: bool
) -> None:
    stack = make_stack(
        fail_open=fail_open,
        picker_flags=["--max-request-body-bytes=1Mi"],
        max_request_body_bytes=2 * MEBIBYTE,
    )
    too_large, over_the_buffer = noise(MEBIBYTE + 1), noise(3 * MEBIBYTE)
    contents: list[bytes | Iterator[bytes]] = [noise(MEBIBYTE), too_large, pieces_of(too_large)]
    contents += [over_the_buffer, pieces_of(over_the_buffer)]

    answers = [client.post(f"{stack.url}/echo", content=content) for content in contents]

    assert [answer.status_code for answer in answers] == [200, 413, 413, 413, 413]
    picker, envoy = "epp_payload_too_large", "request_payload_too_large"
    wait_until(lambda: len(ends_of_413(stack)) == 4, "four refusals in the access log")
    assert ends_of_413(stack) == [picker] * 3 + [envoy if fail_open else picker]
    wait_until(lambda: stack.picker.value_of("epp_buffered_bytes") == 0, "no body is held")


def test_a_hundred_megabytes_pass_under_a_raised_cap(
    make_stack: MakeStack, client: httpx.Client
) -> None:
    stack = make_stack(fail_open=False, picker_flags=["--max-request-body-bytes=256Mi"])
    body = noise(100_000_000)
    before = Memory.of(stack.picker)

    answer = client.post(f"{stack.url}/echo", content=body)

    assert answer.status_code == 200
    assert answer.headers["x-echo-sha256"] == sha256(body) == sha256(answer.content)
    assert Memory.of(stack.picker).peak - before.resident < 3 * len(body)
    wait_until(
        lambda: Memory.of(stack.picker).resident - before.resident < len(body),
        "the memory is given back",
    )


@pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])
def test_images_in_chats_cost_no_more_memory_than_their_bytes(
    make_stack: MakeStack, client: httpx.Client, fail_open: bool
) -> None:
    """Pitfall 18: decoded images, or copies of bodies, would show in the peak."""
    stack = make_stack(fail_open=fail_open)
    picture = base64.b64encode(noise(6_000_000)).decode()
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
    message = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}
    body = json.dumps({"model": MODEL, "messages": [message], "max_tokens": 1}).encode()

    def chat(_: int) -> int:
        url = f"{stack.url}/v1/chat/completions"
        return client.post(url, content=body, headers=JSON).status_code

    before = Memory.of(stack.picker)
    for _ in range(4):
        with ThreadPoolExecutor(10) as threads:
            assert list(threads.map(chat, range(10))) == [200] * 10

    on_the_wire = 10 * len(body)
    assert Memory.of(stack.picker).peak - before.resident < 3 * on_the_wire
    wait_until(lambda: stack.picker.value_of("epp_buffered_bytes") == 0, "no body is held")
    # The allocator keeps about as much as ten images take for the next ones.
    wait_until(
        lambda: Memory.of(stack.picker).resident - before.resident < 2 * on_the_wire,
        "no burst adds to the memory of the one before",
    )
