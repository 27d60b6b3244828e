from __future__ import annotations

from collections.abc import AsyncIterator

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam

from epp.simulator.server import serve
from epp.simulator.settings import Mode, SimulatorSettings

SETTINGS = SimulatorSettings(port=0, model="llama", mode=Mode.ECHO)
HELLO: list[MessageParam] = [{"role": "user", "content": "hello world"}]


@pytest.fixture
async def client() -> AsyncIterator[AsyncAnthropic]:
    async with (
        serve(SETTINGS) as simulator,
        AsyncAnthropic(base_url=simulator.url, api_key="any", max_retries=0) as anthropic_client,
    ):
        yield anthropic_client


async def test_a_message_answers_with_usage(client: AsyncAnthropic) -> None:
    answers = [
        await client.messages.create(
            model="llama", messages=HELLO, max_tokens=max_tokens, system="s" * 640
        )
        for max_tokens in (100, 1)
    ]

    first, second = answers
    assert [block.text for block in first.content if block.type == "text"] == ["hello world"]
    assert (first.stop_reason, second.stop_reason) == ("end_turn", "max_tokens")
    assert first.usage.output_tokens == 3
    assert first.usage.cache_read_input_tokens == 0
    assert second.usage.cache_read_input_tokens == 160
    assert second.usage.input_tokens == first.usage.input_tokens - 160


async def test_counted_tokens_are_the_input_tokens(client: AsyncAnthropic) -> None:
    counted = await client.messages.count_tokens(model="llama", messages=HELLO, system="be brief")
    answer = await client.messages.create(
        model="llama", messages=HELLO, system="be brief", max_tokens=1
    )

    assert counted.input_tokens == answer.usage.input_tokens > 0


async def test_a_stream_has_the_events_of_the_api(client: AsyncAnthropic) -> None:
    stream = await client.messages.create(model="llama", messages=HELLO, max_tokens=2, stream=True)
    events = [event async for event in stream]

    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


async def test_the_client_assembles_the_streamed_message(client: AsyncAnthropic) -> None:
    async with client.messages.stream(model="llama", messages=HELLO, max_tokens=9) as stream:
        message = await stream.get_final_message()

    assert [block.text for block in message.content if block.type == "text"] == ["hello world"]
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens == 3
    assert message.usage.input_tokens > 0


async def test_an_unknown_model_is_404(client: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        await client.messages.create(model="claude", messages=HELLO, max_tokens=1)

    assert caught.value.body == {
        "type": "error",
        "error": {"type": "not_found_error", "message": "The model `claude` does not exist."},
    }
