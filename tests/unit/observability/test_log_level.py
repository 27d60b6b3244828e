from __future__ import annotations

import io
import json
import logging
from typing import get_args

import pytest
import structlog

from epp.observability.log_level import LogLevelSwitch
from epp.observability.logging import LEVELS, LogLevel, configure_logging

pytestmark = pytest.mark.usefixtures("own_logging")

ALL: tuple[LogLevel, ...] = get_args(LogLevel)


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def events(stream: io.StringIO) -> list[str]:
    return [json.loads(line)["msg"] for line in stream.getvalue().splitlines()]


def test_a_change_holds_for_our_loggers_and_for_those_of_libraries(stream: io.StringIO) -> None:
    switch = LogLevelSwitch("info")
    configure_logging("info", stream=stream)
    ours, theirs = structlog.get_logger("epp.a"), logging.getLogger("aiohttp.server")

    switch.use("trace")
    ours.debug("ours")
    theirs.debug("theirs")
    switch.reset()
    ours.debug("ours again")
    theirs.debug("theirs again")

    assert events(stream) == ["log level changed", "ours", "theirs", "log level changed"]


def test_chatty_libraries_stay_quiet_below_trace(stream: io.StringIO) -> None:
    switch = LogLevelSwitch("info")
    configure_logging("info", stream=stream)

    switch.use("debug")
    logging.getLogger("grpc").debug("details")

    assert events(stream) == ["log level changed"]


@pytest.mark.parametrize("before", ALL)
@pytest.mark.parametrize("after", ALL)
def test_a_change_is_always_to_be_seen(
    stream: io.StringIO, before: LogLevel, after: LogLevel
) -> None:
    switch = LogLevelSwitch(before)
    configure_logging(before, stream=stream)

    switch.use(after)

    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    changes = [(line["msg"], line["in_force"], line["before"]) for line in told]
    assert changes == ([] if after == before else [("log level changed", after, before)])
    assert logging.getLogger().level == LEVELS[after]
    assert switch.in_force == after


def test_whoever_puts_debug_lines_together_knows_whether_to() -> None:
    switch = LogLevelSwitch("info")
    assert not switch.tells_debug

    switch.use("trace")
    assert switch.tells_debug

    switch.reset()
    assert not switch.tells_debug
    assert LogLevelSwitch("debug").tells_debug


def test_talkative_loggers_are_heard_at_any_level(stream: io.StringIO) -> None:
    switch = LogLevelSwitch("warning", ("epp.told",))
    configure_logging("warning", stream=stream, talkative=switch.talkative)
    told, other = structlog.get_logger("epp.told"), structlog.get_logger("epp.other")

    told.info("one")
    other.info("nobody hears this")
    switch.use("error")
    told.info("two")
    switch.use("debug")
    told.debug("three")

    heard = [event for event in events(stream) if event != "log level changed"]
    assert heard == ["one", "two", "three"]
