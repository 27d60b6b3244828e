from __future__ import annotations

import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

from epp.support.fault_log import MOST_KINDS, MOST_SUBJECTS, FaultLog
from epp.support.line_pace import PAUSE_SECONDS
from epp.support.plugin_faults import PluginFault

log = structlog.get_logger(__name__)
PROMPT = "the prompt of a client"


class Faults:
    """A fault log on a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.log = FaultLog("plugin failed", log.warning, lambda: self.now)

    def tell(self, error: Exception, subject: str = "a") -> list[EventDict]:
        """The lines that one failure makes."""
        with capture_logs() as lines:
            try:
                raise error
            except type(error) as raised:
                self.log.tell(subject, raised, plugin=subject)
        return list(lines)


def test_the_first_failure_is_told_with_its_traceback() -> None:
    (line,) = Faults().tell(ZeroDivisionError())

    assert (line["event"], line["log_level"], line["plugin"]) == ("plugin failed", "warning", "a")
    assert line["error"] == "ZeroDivisionError"
    assert "in tell\n    raise error\n" in line["exception"]
    assert line["exception"].splitlines()[-1] == "ZeroDivisionError"


def test_what_an_exception_says_is_told_at_no_level() -> None:
    faults = Faults()
    with capture_logs() as lines:
        try:
            try:
                raise KeyError(PROMPT)
            except KeyError as error:
                raise ValueError(PROMPT) from error
        except ValueError as error:
            error.add_note(PROMPT)
            faults.log.tell("a", error)

    (line,) = lines
    assert PROMPT not in str(line)
    assert line["exception"].index("KeyError") < line["exception"].index("ValueError")


def test_a_broken_contract_is_told_in_words() -> None:
    (line,) = Faults().tell(PluginFault("2 scores for 3 endpoints"))

    assert line["problem"] == "2 scores for 3 endpoints"


def test_the_same_failure_is_told_once_a_minute_with_its_number() -> None:
    faults = Faults()
    faults.tell(ValueError())
    assert [faults.tell(ValueError()) for _ in range(9)] == [[]] * 9

    faults.now += PAUSE_SECONDS

    (line,) = faults.tell(ValueError())
    assert line["failures"] == 10
    assert "exception" not in line
    assert faults.tell(ValueError()) == []


def test_another_failure_and_another_plugin_are_told_at_once() -> None:
    faults = Faults()
    faults.tell(ValueError())

    assert "exception" in faults.tell(KeyError())[0]
    assert "exception" in faults.tell(ValueError(), "b")[0]


def test_a_plugin_that_makes_up_exceptions_fills_no_log() -> None:
    faults = Faults()

    told = [faults.tell(type(f"Error{number}", (Exception,), {})()) for number in range(100)]

    assert sum(map(len, told)) == MOST_KINDS


def test_what_is_remembered_is_bounded() -> None:
    faults = Faults()
    for number in range(MOST_SUBJECTS):
        faults.tell(ValueError(), str(number))
    assert faults.tell(ValueError(), "0") == []

    faults.tell(ValueError(), "one more")

    assert len(faults.tell(ValueError(), "0")) == 1


class Unspeakable(Exception):
    """Fails when it is shown."""

    def __repr__(self) -> str:
        raise RuntimeError("repr")


def test_an_exception_that_can_not_be_shown_harms_nobody() -> None:
    (line,) = Faults().tell(Unspeakable())

    assert line["error"].endswith("Unspeakable")
