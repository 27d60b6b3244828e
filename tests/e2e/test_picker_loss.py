"""What clients get while a picker is gone, in both failure modes."""

from __future__ import annotations

import httpx
import pytest

from tests.fakes.programs.processes import MODEL
from tests.fakes.programs.program import wait_until
from tests.fakes.programs.stack import MakeStack, Stack

pytestmark = pytest.mark.e2e

PROMPT = "x" * 200_000
SERVED = "x-gateway-destination-endpoint-served"


def complete(stack: Stack) -> httpx.Response:
    body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 1}
    return httpx.post(f"{stack.url}/v1/completions", json=body)


def test_fail_close_answers_503_until_the_picker_is_back(make_stack: MakeStack) -> None:
    stack = make_stack(fail_open=False)

    stack.picker.kill()
    during = complete(stack)
    stack.wait_healthy(0)
    stack.picker.start()

    assert during.status_code == 503
    # Not by the count of healthy hosts: an ejection may end before the health check has begun.
    wait_until(lambda: complete(stack).status_code == 200, "an answer of the picker")


def test_fail_open_serves_whole_bodies_without_a_picker(make_stack: MakeStack) -> None:
    stack = make_stack(fail_open=True)

    stack.picker.kill()
    answers = [complete(stack) for _ in range(5)]

    assert [answer.status_code for answer in answers] == [200] * 5
    assert answers[0].json()["usage"]["prompt_tokens"] > 1
    fallback = stack.gateway.stats("cluster.pool_fallback.upstream_rq_total")
    assert fallback["cluster.pool_fallback.upstream_rq_total"] == 5


def test_a_picker_that_hangs_is_taken_out(make_stack: MakeStack) -> None:
    stack = make_stack(fail_open=True)

    stack.picker.pause()
    wait_until(lambda: stack.gateway.healthy_pickers() == 0, "a failed health check")
    during = complete(stack)
    stack.picker.resume()

    assert during.status_code == 200
    assert SERVED not in during.headers
    wait_until(lambda: SERVED in complete(stack).headers, "a pick")


def test_a_second_picker_takes_over(make_stack: MakeStack) -> None:
    stack = make_stack(fail_open=False, pickers=2)

    stack.picker.kill()
    stack.wait_healthy(1)
    answers = [complete(stack) for _ in range(5)]

    assert [answer.status_code for answer in answers] == [200] * 5
