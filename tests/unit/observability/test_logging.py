from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from epp.observability.logging import LogFormat, LogLevel, ProcessLogHandler, configure_logging

pytestmark = pytest.mark.usefixtures("own_logging")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_a_json_line_with_its_key_values(stream: io.StringIO) -> None:
    configure_logging(stream=stream)

    structlog.get_logger("epp.room").info("endpoint added", endpoint="10.0.0.1:8000", count=2)

    [line] = lines(stream)
    assert list(line)[:4] == ["ts", "level", "logger", "msg"]
    del line["ts"]
    assert line == {
        "level": "info",
        "logger": "epp.room",
        "msg": "endpoint added",
        "endpoint": "10.0.0.1:8000",
        "count": 2,
    }


def test_a_library_goes_through_the_same_renderer(stream: io.StringIO) -> None:
    configure_logging(stream=stream)

    logging.getLogger("some.library").warning("%s of %d", "two", 3, extra={"peer": "gw"})

    [line] = lines(stream)
    assert (line["msg"], line["level"], line["peer"]) == ("two of 3", "warning", "gw")


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("error", ["ours error"]),
        ("info", ["ours error", "ours info", "grpc info"]),
        ("debug", ["ours error", "ours info", "grpc info", "ours debug"]),
        ("trace", ["ours error", "ours info", "grpc info", "ours debug", "grpc debug"]),
    ],
)
def test_a_level_shows_what_is_at_least_as_severe(
    stream: io.StringIO, level: LogLevel, expected: list[str]
) -> None:
    configure_logging(level, stream=stream)
    ours, library = structlog.get_logger("epp"), logging.getLogger("grpc")

    ours.error("ours error")
    ours.info("ours info")
    library.info("grpc info")
    ours.debug("ours debug")
    library.debug("grpc debug")

    assert [line["msg"] for line in lines(stream)] == expected


def test_the_level_changes_at_run_time_for_loggers_that_exist(stream: io.StringIO) -> None:
    configure_logging("info", stream=stream)
    ours = structlog.get_logger("epp")
    ours.debug("before")

    configure_logging("debug", stream=stream)
    ours.debug("after")

    assert [line["msg"] for line in lines(stream)] == ["after"]


def test_configuring_again_leaves_one_handler_of_ours_and_all_of_others(
    stream: io.StringIO,
) -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)

    configure_logging(stream=stream)
    configure_logging(stream=stream)

    handlers = logging.getLogger().handlers
    assert sum(isinstance(handler, ProcessLogHandler) for handler in handlers) == 1
    assert other in handlers


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("of_a_library", [False, True], ids=["ours", "a library's"])
def test_a_traceback_shows_code_but_neither_variables_nor_messages(
    stream: io.StringIO, log_format: LogFormat, of_a_library: bool
) -> None:
    configure_logging("trace", log_format, stream)
    log = logging.getLogger("lib") if of_a_library else structlog.get_logger("epp")
    try:
        token = "s3cr3t".upper()
        raise ValueError(token)
    except ValueError:
        log.exception("failed")

    assert "raise ValueError(token)" in stream.getvalue()
    assert "S3CR3T" not in stream.getvalue()


def test_an_exception_that_was_not_raised_is_told_by_its_kind(stream: io.StringIO) -> None:
    configure_logging(stream=stream)

    structlog.get_logger("epp").error("failed", exc_info=KeyError("s3cr3t"))
    structlog.get_logger("epp").error("failed", exc_info=True)

    first, second = lines(stream)
    assert str(first["exception"]).endswith("KeyError")
    assert "exception" not in second


@pytest.mark.parametrize("name", ["hpack.hpack", "hpack.table", "kubernetes_asyncio.client.rest"])
def test_libraries_that_log_headers_and_bodies_at_debug_level_never_do(
    stream: io.StringIO, name: str
) -> None:
    configure_logging("trace", stream=stream)

    logging.getLogger(name).debug("Decoded %s", ("authorization", "s3cr3t"))
    logging.getLogger(name).warning("something is wrong")

    assert [line["msg"] for line in lines(stream)] == ["something is wrong"]


def test_values_cannot_reach_the_terminal(stream: io.StringIO) -> None:
    configure_logging(log_format="console", stream=stream)

    structlog.get_logger("epp").info("seen", model="a\x1b[2J\nfake line")
    logging.getLogger("lib").info("from %s", "b\x1b[2J\nfake line")
    error = type("c\x1b[2J", (ValueError,), {})
    try:
        raise error
    except ValueError:
        structlog.get_logger("epp").exception("failed")

    assert "\x1b" not in stream.getvalue()
    assert "\nfake line" not in stream.getvalue()
    assert "\\x1b[2J" in stream.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_the_id_of_a_request_is_cut_and_printable(
    stream: io.StringIO, log_format: LogFormat
) -> None:
    configure_logging(log_format=log_format, stream=stream)

    structlog.get_logger("epp").info("seen", request_id="r\u202e" + "x" * 5000)

    assert "r\\u202ex" in stream.getvalue().replace("\\\\", "\\")
    assert "x..." in stream.getvalue()
    assert len(stream.getvalue()) < 400


def test_an_ordinary_line_for_people_is_short(stream: io.StringIO) -> None:
    configure_logging(log_format="console", stream=stream)

    structlog.get_logger("epp.room").info("endpoint added", endpoint="10.0.0.1:8000")

    assert stream.getvalue().count("\n") == 1
    assert "endpoint added" in stream.getvalue()
    assert "endpoint=10.0.0.1:8000" in stream.getvalue()


@pytest.mark.parametrize(("level", "count"), [("info", 0), ("debug", 0), ("trace", 1)])
def test_the_file_watcher_does_not_tell_of_every_file_around_the_pool(
    stream: io.StringIO, level: LogLevel, count: int
) -> None:
    configure_logging(level, stream=stream)

    logging.getLogger("watchfiles.main").info("%d changes detected", 2)

    assert len(lines(stream)) == count


def test_people_read_problems_one_per_line_below_the_event(stream: io.StringIO) -> None:
    configure_logging(log_format="console", stream=stream)

    structlog.get_logger("epp").error("refused", problem="2 mistakes:\n  a: b\x1b[2J\n  c: d")

    first, *rest = stream.getvalue().splitlines()
    assert "refused" in first
    assert "2 mistakes" not in first
    assert rest == ["  2 mistakes:", "    a: b\\x1b[2J", "    c: d"]


def test_machines_read_all_problems_in_one_line(stream: io.StringIO) -> None:
    configure_logging(stream=stream)

    structlog.get_logger("epp").error("refused", problem="2 mistakes:\n  a: b\n  c: d")

    assert [line["problem"] for line in lines(stream)] == ["2 mistakes:\n  a: b\n  c: d"]


def test_people_read_the_text_of_a_traceback_line_by_line(stream: io.StringIO) -> None:
    configure_logging(log_format="console", stream=stream)

    structlog.get_logger("epp").warning("plugin failed", exception="Traceback:\n  a\x1b[2J\nE")

    assert stream.getvalue().splitlines()[1:] == ["Traceback:", "  a\\x1b[2J", "E"]
