from __future__ import annotations

from epp.testing import request_of, response_of
from tests.fakes.plugins.hooks import BUG, A, Anything, Runner


def test_a_response_header_hook_that_fails_costs_its_own_changes() -> None:
    runner = Runner(response_header=(Anything(name="a"), Anything(BUG, "b"), Anything(name="c")))
    response = response_of()

    runner.run.response.response_header(request_of(), response, A)

    assert response.headers.changes == {"x-a": b"1", "x-c": b"1"}
    assert runner.errors == {"ResponseReceived": 1}


async def test_every_hook_follows_the_response_whatever_the_others_do() -> None:
    async def late_bug() -> None:
        raise ValueError("bug")

    hooks = (Anything(BUG), Anything(late_bug), Anything())
    runner = Runner(response_body=hooks, response_progress=hooks[::2])

    await runner.run.response.response_body(request_of(), response_of(), A)
    runner.run.response.first_chunk(request_of(), response_of(), A)
    runner.run.response.ended(request_of(), response_of(), A)

    assert [hook.calls for hook in hooks] == [3, 1, 3]
    assert runner.errors == {"ResponseStreaming": 4}
    assert runner.timed == {"ResponseStreaming": 7}


def test_metadata_of_hooks_is_merged_key_by_key() -> None:
    runner = Runner(
        response_metadata=(
            Anything(lambda: {"lb": {"a": 1, "b": 1}}),
            Anything(BUG),
            Anything(lambda: None),
            Anything(lambda: {"lb": 7}),
            Anything(lambda: {"lb": {"b": 2}, "mine": {"c": 3}}),
        )
    )

    told = runner.run.response.response_metadata(request_of(), response_of())

    assert told == {"lb": {"a": 1, "b": 2}, "mine": {"c": 3}}
    assert runner.errors == {"ResponseStreaming": 3}
    assert runner.timed == {"ResponseStreaming": 5}
