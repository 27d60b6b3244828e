from __future__ import annotations

import math
from collections.abc import AsyncIterator

import aiohttp
import openai
import pytest
from openai import AsyncOpenAI

from epp.simulator.server import RunningSimulator, serve
from epp.simulator.settings import Mode, SimulatorSettings

SETTINGS = SimulatorSettings(port=0, model="llama", lora_modules=("sql",), mode=Mode.ECHO)


@pytest.fixture
async def simulator() -> AsyncIterator[RunningSimulator]:
    async with serve(SETTINGS) as running:
        yield running


@pytest.fixture
async def client(simulator: RunningSimulator) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=f"{simulator.url}/v1", api_key="any", max_retries=0
    ) as openai_client:
        yield openai_client


async def test_chat_answers_with_usage(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="llama", messages=[{"role": "user", "content": "hello world"}], max_tokens=2
    )

    assert answer.model == "llama"
    assert answer.choices[0].message.content == "hello wo"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 2
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 2


async def test_chat_reports_cached_tokens_of_a_known_prefix(client: AsyncOpenAI) -> None:
    cached = []
    for question in ("one", "two"):
        answer = await client.chat.completions.create(
            model="llama",
            messages=[
                {"role": "system", "content": "s" * 640},
                {"role": "user", "content": [{"type": "text", "text": question}]},
            ],
            max_completion_tokens=1,
        )
        assert answer.usage is not None
        assert answer.usage.prompt_tokens_details is not None
        cached.append(answer.usage.prompt_tokens_details.cached_tokens)

    assert cached == [0, 160]


async def test_a_chat_stream_has_one_event_per_token_and_ends_with_usage(
    client: AsyncOpenAI,
) -> None:
    stream = await client.chat.completions.create(
        model="sql",
        messages=[{"role": "user", "content": "hello world"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]

    *tokens, last = chunks
    assert [chunk.choices[0].delta.content for chunk in tokens] == ["hell", "o wo", "rld"]
    assert [chunk.choices[0].finish_reason for chunk in tokens] == [None, None, "stop"]
    assert {chunk.usage for chunk in tokens} == {None}
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 3
    assert {chunk.model for chunk in chunks} == {"sql"}
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_chat_stream_without_options_has_no_usage(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="llama", messages=[{"role": "user", "content": ""}], stream=True
    )

    chunks = [chunk async for chunk in stream]

    assert [chunk.usage for chunk in chunks] == [None]
    assert chunks[0].choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        ("hello", ["hello"]),
        (["hello", "world"], ["hello", "world"]),
        ([0x64636261, 0x68676665], ["abcdefgh"]),
        ([[0x64636261], [0x68676665]], ["abcd", "efgh"]),
    ],
    ids=["text", "texts", "token ids", "lists of token ids"],
)
@pytest.mark.parametrize("max_num_seqs", [1, 5])
async def test_completions_answer_each_prompt(
    prompt: str | list[str], texts: list[str], max_num_seqs: int
) -> None:
    settings = SimulatorSettings(port=0, mode=Mode.ECHO, max_num_seqs=max_num_seqs)
    async with (
        serve(settings) as simulator,
        AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="any") as client,
    ):
        answer = await client.completions.create(model="simulated-model", prompt=prompt)
        stream = await client.completions.create(
            model="simulated-model", prompt=prompt, stream=True
        )
        streamed = [""] * len(texts)
        async for chunk in stream:
            streamed[chunk.choices[0].index] += chunk.choices[0].text

    assert [choice.text for choice in answer.choices] == texts
    assert streamed == texts


async def test_embeddings_are_unit_vectors_that_follow_from_the_text(client: AsyncOpenAI) -> None:
    # The client asks for base64 unless told otherwise.
    answer = await client.embeddings.create(model="llama", input=["hello", "world", "hello"])
    floats = await client.embeddings.create(
        model="llama", input="hello", encoding_format="float", dimensions=3
    )

    first, second, third = (item.embedding for item in answer.data)
    assert first == third != second
    assert math.isclose(math.hypot(*first), 1, rel_tol=1e-6)
    assert len(floats.data[0].embedding) == 3
    assert answer.usage.prompt_tokens == 6


async def test_models_are_the_base_model_and_its_adapters(client: AsyncOpenAI) -> None:
    models = [model.id async for model in client.models.list()]

    assert models == ["llama", "sql"]


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/responses"])
async def test_a_path_that_is_not_simulated_is_told_beside_those_that_are(
    http: aiohttp.ClientSession, simulator: RunningSimulator, path: str
) -> None:
    async with http.post(f"{simulator.url}{path}", json={}) as response:
        told = await response.json()

    assert response.status == 404
    assert told["error"]["message"].startswith(f"{path} is not simulated; there is /v1/chat/compl")


async def test_an_unknown_model_is_404(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await client.chat.completions.create(
            model="gpt", messages=[{"role": "user", "content": "hello"}]
        )

    assert caught.value.body == {
        "message": "The model `gpt` does not exist.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }


async def test_texts_follow_from_seed_and_prompt_on_every_server() -> None:
    texts = []
    for seed in (1, 1, 2):
        async with (
            serve(SimulatorSettings(port=0, seed=seed)) as simulator,
            AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="any") as client,
        ):
            answer = await client.completions.create(model="simulated-model", prompt="hello")
            texts.append((answer.id, answer.choices[0].text))

    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
