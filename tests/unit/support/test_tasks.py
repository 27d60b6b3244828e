from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from epp.support.tasks import TaskOwner, keep_running

SAID = "words of a body"


class Flaky:
    """Fails as often as told, then serves until it is cancelled."""

    def __init__(self, failures: int, returns: int = 0) -> None:
        self.failures = failures
        self.returns = returns
        self.serving = asyncio.Event()

    async def __call__(self) -> None:
        if self.failures:
            self.failures -= 1
            raise ValueError(SAID)
        if self.returns:
            self.returns -= 1
            return
        self.serving.set()
        await asyncio.Event().wait()


async def run_until_serving(serve: Flaky) -> None:
    task = asyncio.create_task(keep_running("test", serve, first_pause=0.001, longest_pause=0.004))
    await serve.serving.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_failures_are_logged_and_tried_again_after_a_growing_pause() -> None:
    with capture_logs() as logs:
        await run_until_serving(Flaky(failures=5))

    assert [entry["retry_in"] for entry in logs] == [0.001, 0.002, 0.004, 0.004, 0.004]
    assert {(entry["task"], entry["error"]) for entry in logs} == {("test", "ValueError")}


async def test_a_failure_is_told_by_kind_and_once_by_place_and_never_in_its_words() -> None:
    with capture_logs() as logs:
        await run_until_serving(Flaky(failures=3))

    assert ["exception" in entry for entry in logs] == [True, False, False]
    assert "__call__" in logs[0]["exception"]
    assert SAID not in str(logs)


async def test_a_run_that_returns_is_started_again_without_a_word() -> None:
    with capture_logs() as logs:
        await run_until_serving(Flaky(failures=0, returns=3))

    assert logs == []


async def test_an_owner_gives_the_result_of_its_task() -> None:
    async def answer() -> int:
        return 42

    owner = TaskOwner()

    assert await owner.spawn(answer(), "answer") == 42
    assert len(owner) == 0


async def test_a_task_that_fails_is_logged_with_its_name_and_what_it_was_about() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    owner = TaskOwner()
    with capture_logs() as logs:
        task = owner.spawn(fail(), "decision", lambda: {"request_id": "r1"})
        await asyncio.wait({task})

    assert [(entry["event"], entry["task"], entry["request_id"]) for entry in logs] == [
        ("task failed", "decision", "r1")
    ]


async def test_closing_an_owner_waits_until_its_tasks_have_cleaned_up() -> None:
    cleaned_up = asyncio.Event()
    started = asyncio.Event()

    async def wait() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned_up.set()

    owner = TaskOwner()
    task = owner.spawn(wait(), "waiting")
    await started.wait()

    await owner.aclose()

    assert cleaned_up.is_set()
    assert task.cancelled()
    assert len(owner) == 0
