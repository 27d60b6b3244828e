"""What people's own client libraries get through a real Envoy, in both failure modes."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import httpx
import openai
import pytest

from tests.fakes.programs.processes import MODEL
from tests.fakes.programs.stack import Stack

pytestmark = pytest.mark.e2e

SERVED = "x-gateway-destination-endpoint-served"


@pytest.fixture
def openai_client(stack: Stack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic_client(stack: Stack) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=stack.url, api_key="none", max_retries=0) as client:
        yield client


def addresses(stack: Stack) -> set[str]:
    return {str(server) for server in stack.servers}


def test_a_chat_is_answered_and_says_who_served(stack: Stack, openai_client: openai.OpenAI) -> None:
    raw = openai_client.chat.completions.with_raw_response.create(
        model=MODEL, messages=[{"role": "user", "content": "Hello"}]
    )

    completion = raw.parse()
    assert completion.model == MODEL
    assert completion.choices[0].message.content
    assert completion.usage is not None
    assert completion.usage.completion_tokens > 0
    assert raw.headers[SERVED] in addresses(stack)


def test_a_chat_streams_to_its_end(stack: Stack, openai_client: openai.OpenAI) -> None:
    raw = openai_client.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Hello"}],
        max_completion_tokens=5,
        stream=True,
        stream_options={"include_usage": True},
    )

    chunks = list(raw.parse())

    assert len([chunk for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]) > 1
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens == 5
    assert raw.headers[SERVED] in addresses(stack)


def test_a_completion_is_answered(stack: Stack, openai_client: openai.OpenAI) -> None:
    raw = openai_client.completions.with_raw_response.create(
        model=MODEL, prompt="Once upon a time", max_tokens=4
    )

    usage = raw.parse().usage
    assert usage is not None
    assert usage.completion_tokens == 4
    assert raw.headers[SERVED] in addresses(stack)


def test_embeddings_are_answered(stack: Stack, openai_client: openai.OpenAI) -> None:
    raw = openai_client.embeddings.with_raw_response.create(model=MODEL, input=["one", "two"])

    assert [entry.index for entry in raw.parse().data] == [0, 1]
    assert raw.headers[SERVED] in addresses(stack)


def test_models_are_listed(stack: Stack, openai_client: openai.OpenAI) -> None:
    raw = openai_client.models.with_raw_response.list()

    assert [model.id for model in raw.parse()] == [MODEL]
    assert raw.headers[SERVED] in addresses(stack)


def test_a_message_is_answered(stack: Stack, anthropic_client: anthropic.Anthropic) -> None:
    raw = anthropic_client.messages.with_raw_response.create(
        model=MODEL, max_tokens=6, messages=[{"role": "user", "content": "Hello"}]
    )

    message = raw.parse()
    assert message.content[0].type == "text"
    assert message.usage.output_tokens == 6
    assert raw.headers[SERVED] in addresses(stack)


def test_a_message_streams_to_its_end(stack: Stack, anthropic_client: anthropic.Anthropic) -> None:
    with anthropic_client.messages.stream(
        model=MODEL, max_tokens=6, messages=[{"role": "user", "content": "Hello"}]
    ) as stream:
        pieces = list(stream.text_stream)
        message = stream.get_final_message()

    assert len(pieces) > 1
    assert message.usage.output_tokens == 6
    assert stream.response.headers[SERVED] in addresses(stack)


def test_an_http2_client_reaches_servers_that_speak_http1(stack: Stack) -> None:
    with httpx.Client(http1=False, http2=True) as client:
        answer = client.post(
            f"{stack.url}/v1/completions", json={"model": MODEL, "prompt": "Hi", "max_tokens": 1}
        )

    assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
    assert answer.headers[SERVED] in addresses(stack)


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_a_large_body_arrives_as_it_was(stack: Stack, http2: bool) -> None:
    body = bytes(range(256)) * (17 << 12)

    with httpx.Client(http1=not http2, http2=http2, timeout=60) as client:
        answer = client.post(f"{stack.url}/echo", content=body)

    assert answer.status_code == 200
    assert answer.content == body


def test_a_body_over_the_limit_is_refused(stack: Stack) -> None:
    answer = httpx.post(f"{stack.url}/echo", content=b"x" * (65 << 20), timeout=60)

    assert answer.status_code == 413


def test_a_client_can_not_choose_its_endpoint(stack: Stack) -> None:
    answer = httpx.post(
        f"{stack.url}/v1/completions",
        json={"model": MODEL, "prompt": "Hi", "max_tokens": 1},
        headers={"x-gateway-destination-endpoint": "127.0.0.1:1"},
    )

    assert answer.status_code == 200
    assert answer.headers[SERVED] in addresses(stack)


def test_a_broken_body_is_the_clients_fault(stack: Stack) -> None:
    answer = httpx.post(
        f"{stack.url}/v1/chat/completions",
        content=b'{"model": ',
        headers={"content-type": "application/json"},
    )

    assert answer.status_code == 400
    assert "BadRequest" in answer.text
