"""When sockets are read; their time is virtual, they themselves are not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from epp.data_layer.inbox import MOST_PER_LOOK, Inbox
from epp.data_layer.timetable import Appointment, Timetable
from tests.fakes.virtual_time import in_virtual_time


class CountingTimetable(Timetable):
    """Knows when it was asked to call somebody."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop().time)
        self.dues: list[float] = []

    def set(self, appointment: Appointment, due: float) -> None:
        self.dues.append(due)
        super().set(appointment, due)


class Line:
    """A connection whose other end is in the test's hands."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._socket, self.server = socket.socketpair()
        self._socket.setblocking(False)
        self.is_asking = False
        self.read_at: list[float] = []
        inbox.add(self._socket, self)

    def ask(self) -> None:
        self._inbox.refresh()
        self.is_asking = True
        self._inbox.expect()

    def read(self) -> None:
        self._socket.recv(1000)
        self.read_at.append(asyncio.get_running_loop().time())
        if self.is_asking:
            self.is_asking = False
            self._inbox.settle()

    def close(self) -> None:
        self._inbox.remove(self._socket)
        self._socket.close()
        self.server.close()


class Scene:
    """An inbox with lines."""

    def __init__(self, lines: int) -> None:
        self.table = CountingTimetable()
        self.inbox = Inbox(self.table, asyncio.get_running_loop().time)
        self.lines = [Line(self.inbox) for _ in range(lines)]


Play = Callable[[Callable[[Scene], Awaitable[None]]], None]


@pytest.fixture
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a story about an inbox with as many lines as the test is marked with."""

    def run(story: Callable[[Scene], Awaitable[None]]) -> None:
        async def told() -> None:
            scene = Scene(request.param)
            try:
                await story(scene)
            finally:
                for line in scene.lines:
                    line.close()
                scene.inbox.close()
            assert len(scene.table) == 0

        in_virtual_time(told())

    return run


@pytest.mark.parametrize("play", [3], indirect=True)
def test_answers_are_read_together_two_milliseconds_after_the_question(play: Play) -> None:
    async def story(scene: Scene) -> None:
        for line in scene.lines:
            line.ask()
            line.server.send(b"x")
        await asyncio.sleep(0.01)

        assert [line.read_at for line in scene.lines] == [[pytest.approx(0.002)]] * 3

    play(story)


@pytest.mark.parametrize("play", [2 * MOST_PER_LOOK + 3], indirect=True)
def test_others_have_their_turn_between_many_answers(play: Play) -> None:
    async def story(scene: Scene) -> None:
        for line in scene.lines:
            line.ask()
            line.server.send(b"x")
        await asyncio.sleep(0.002)
        counts = [0, sum(len(line.read_at) for line in scene.lines)]
        while counts[-1] < len(scene.lines):
            await asyncio.sleep(0)
            counts.append(sum(len(line.read_at) for line in scene.lines))

        steps = [later - sooner for sooner, later in pairwise(counts)]
        assert [step for step in steps if step] == [MOST_PER_LOOK, MOST_PER_LOOK, 3]

    play(story)


@pytest.mark.parametrize("play", [2], indirect=True)
def test_what_came_without_a_question_is_read_before_the_next_one(play: Play) -> None:
    async def story(scene: Scene) -> None:
        asked, other = scene.lines
        await asyncio.sleep(0.01)
        other.server.send(b"x")
        asked.server.send(b"x")
        asked.ask()

        assert len(other.read_at) == len(asked.read_at) == 1
        assert asked.is_asking

    play(story)


@pytest.mark.parametrize("play", [2], indirect=True)
def test_answers_are_not_read_while_others_ask(play: Play) -> None:
    async def story(scene: Scene) -> None:
        asking, other = scene.lines
        await asyncio.sleep(0.01)
        asking.ask()
        asking.server.send(b"x")
        await asyncio.sleep(0.001)
        other.ask()
        assert asking.read_at == []

        await asyncio.sleep(0.001)
        assert len(asking.read_at) == 1

    play(story)


@pytest.mark.parametrize("play", [1], indirect=True)
def test_what_nobody_asked_for_is_noticed_soon(play: Play) -> None:
    async def story(scene: Scene) -> None:
        scene.lines[0].server.send(b"x")
        await asyncio.sleep(0.2)

        assert len(scene.lines[0].read_at) == 1

    play(story)


@pytest.mark.parametrize("play", [2], indirect=True)
def test_a_server_that_takes_its_time_is_looked_after_less_often(play: Play) -> None:
    async def story(scene: Scene) -> None:
        slow, quick = scene.lines
        slow.ask()
        await asyncio.sleep(1)
        assert len(scene.table.dues) < 80

        quick.ask()
        quick.server.send(b"x")
        asked = asyncio.get_running_loop().time()
        await asyncio.sleep(0.003)
        assert quick.read_at == [pytest.approx(asked + 0.002)]

        slow.server.send(b"x")
        await asyncio.sleep(0.016)
        assert len(slow.read_at) == 1

    play(story)
