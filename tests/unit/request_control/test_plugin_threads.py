from __future__ import annotations

import asyncio
import gc
import queue
import threading
import weakref
from functools import partial

import pytest

from epp.request_control.plugin_threads import PluginThreads
from tests.fakes.programs.program import wait_until


async def test_a_call_runs_in_another_thread_and_gives_what_it_returns() -> None:
    assert await PluginThreads().run(threading.current_thread) is not threading.current_thread()


async def test_what_a_call_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await PluginThreads().run(partial(divmod, 1, 0))


class Prompt:
    """What a call was about."""

    def wait_for(self, event: threading.Event) -> None:
        event.wait()


async def late(threads: PluginThreads, go_on: threading.Event) -> weakref.ref[Prompt]:
    """Give a call up; tells what it was about."""
    prompt = Prompt()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await threads.run(partial(prompt.wait_for, go_on))
    return weakref.ref(prompt)


async def test_of_calls_that_are_given_up_only_those_that_go_on_are_kept() -> None:
    threads, go_on = PluginThreads(2), threading.Event()
    try:
        given_up = [await late(threads, go_on) for _ in range(8)]

        await asyncio.sleep(0)
        gc.collect()  # what exceptions and the event loop held
        assert sum(prompt() is not None for prompt in given_up) <= 2
    finally:
        go_on.set()


async def test_a_thread_that_comes_back_is_for_the_next_call() -> None:
    threads, go_on = PluginThreads(1), threading.Event()
    try:
        await late(threads, go_on)
    finally:
        go_on.set()

    assert await threads.run(lambda: 1) == 1
    assert await threads.run(lambda: 2) == 2


def test_a_call_that_outlives_the_event_loop_ends_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go_on, begun = threading.Event(), queue.SimpleQueue[threading.Thread]()

    def stubborn() -> None:
        begun.put(threading.current_thread())
        go_on.wait()

    async def leave() -> threading.Thread:
        call = asyncio.ensure_future(PluginThreads(1).run(stubborn))
        thread = await asyncio.to_thread(begun.get)
        call.cancel()
        return thread

    thread = asyncio.run(leave())
    go_on.set()
    wait_until(lambda: gc.collect() >= 0 and not thread.is_alive(), "its end")

    assert caplog.records == []
