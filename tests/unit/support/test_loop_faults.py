from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from epp.support.loop_faults import tell_of_fault

PROMPT = "the prompt of a client"


@pytest.fixture
async def told() -> AsyncIterator[list[EventDict]]:
    """The lines of the log, in a loop whose failures are told there."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(tell_of_fault)
    with capture_logs() as lines:
        yield lines
    loop.set_exception_handler(before)


async def test_a_callback_that_fails_is_told_without_its_arguments(told: list[EventDict]) -> None:
    def callback(message: bytes) -> None:
        raise ValueError(message.decode())

    asyncio.get_running_loop().call_soon(callback, PROMPT.encode())
    await asyncio.sleep(0)

    (line,) = told
    assert line["log_level"] == "error"
    assert line["what"].startswith("Exception in callback")
    assert "in callback\n" in line["exception"]
    assert "prompt" not in str(line)


async def test_a_task_whose_failure_nobody_took_is_told_without_its_message(
    told: list[EventDict],
) -> None:
    async def fail() -> None:
        raise ValueError(PROMPT)

    task = asyncio.create_task(fail(), name=PROMPT)
    await asyncio.wait((task,))
    del task
    gc.collect()

    (line,) = told
    assert line["what"] == "Task exception was never retrieved"
    assert "in fail\n" in line["exception"]
    assert "prompt" not in str(line)


async def test_what_has_no_exception_is_told_in_the_words_of_asyncio(
    told: list[EventDict],
) -> None:
    asyncio.get_running_loop().call_exception_handler(
        {"message": "Task was destroyed but it is pending!", "task": PROMPT}
    )

    (line,) = told
    assert line["what"] == "Task was destroyed but it is pending!"
    assert "exception" not in line
    assert "prompt" not in str(line)
