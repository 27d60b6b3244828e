"""What is left without response bodies: a real Envoy that keeps them from the picker."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.e2e.conftest import StartSimulators, assert_no_complaints
from tests.fakes.programs.pool_client import different_prompts
from tests.fakes.programs.processes import MODEL
from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e

SERVED = "x-gateway-destination-endpoint-served"
ENDLESS = "--inter-token-latency=1h"

BOTH_MODES = pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])


def streamed(
    client: openai.OpenAI, prompt: str, tokens: int
) -> tuple[str, Iterator[ChatCompletionChunk]]:
    """Who answers, and the answer."""
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=[{"role": "user", "content": prompt}],
        max_completion_tokens=tokens,
        stream=True,
        stream_options={"include_usage": True},
    )
    return raw.headers[SERVED], iter(raw.parse())


def client_of(stack: Stack) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{stack.url}/v1", api_key="none", max_retries=0)


@BOTH_MODES
def test_answers_are_whole_and_what_can_be_known_is_right(
    make_stack: MakeStack, fail_open: bool
) -> None:
    stack = make_stack(fail_open=fail_open, response_bodies=False)
    for server in stack.servers:
        stack.picker.wait_until_heard_of(server)
    prompts = different_prompts(12)

    with client_of(stack) as client:
        answers = [
            (served, list(chunks))
            for served, chunks in (streamed(client, prompt, 5) for prompt in prompts)
        ]
    stack.picker.wait_for_value("epp_requests_in_flight", 0)

    assert {served for served, _ in answers} == {str(server) for server in stack.servers}
    for _, chunks in answers:
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.completion_tokens == 5
    value_of, number = stack.picker.value_of, len(prompts)
    assert value_of('epp_request_terminations_total{cause="natural"}') == number
    assert value_of("epp_request_terminations_total") == number
    assert value_of("llm_d_epp_request_total") == number
    assert value_of("llm_d_epp_request_duration_seconds_count") == number
    for unknown in ("request_ttft_seconds", "output_tokens", "response_size_bytes"):
        assert value_of(f"llm_d_epp_{unknown}_count") == 0
    assert_no_complaints(stack)


@BOTH_MODES
def test_a_request_is_over_for_the_picker_with_its_response_headers(
    make_stack: MakeStack, start_simulators: StartSimulators, fail_open: bool
) -> None:
    servers = [simulator.address() for simulator in start_simulators(1, ENDLESS)]
    stack = make_stack(servers=servers, fail_open=fail_open, response_bodies=False)

    with client_of(stack) as client:
        _, chunks = streamed(client, "Hello", 2)
        next(chunks)
        stack.picker.wait_until_known(servers[0], inFlight=0)

    assert stack.picker.value_of("epp_requests_in_flight") == 0
    assert stack.picker.value_of('epp_request_terminations_total{cause="natural"}') == 1
    assert_no_complaints(stack)
