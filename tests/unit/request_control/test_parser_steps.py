from __future__ import annotations

from collections.abc import Callable

from epp.framework.trail import StepName
from epp.plugins.parsers.openai import OpenAIParser
from epp.request_control.parser_steps import ParserSteps


class Timers:
    """Keeps what was asked for, and what it was told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.told: list[float] = []

    def __call__(self, point: str, kind: str, name: str) -> Callable[[float], None]:
        self.asked.append((point, kind, name))
        return self.told.append


def a_parser(name: str) -> OpenAIParser:
    parser = OpenAIParser()
    parser.identify(type="openai-parser", name=name)
    return parser


def test_a_parser_is_timed_under_its_type_and_the_name_of_its_configuration() -> None:
    timers = Timers()

    step = ParserSteps("ResponseParsing", timers).of(a_parser("mine"))
    step.took(0.5)

    assert step.label == StepName("ResponseParsing", "mine")
    assert timers.asked == [("ResponseParsing", "openai-parser", "mine")]
    assert timers.told == [0.5]


def test_a_parser_that_is_built_anew_is_the_same_step() -> None:
    timers = Timers()
    steps = ParserSteps("RequestParsing", timers)

    assert steps.of(a_parser("mine")) is steps.of(a_parser("mine"))
    assert len(timers.asked) == 1


def test_another_name_is_another_step() -> None:
    timers = Timers()
    steps = ParserSteps("RequestParsing", timers)

    assert steps.of(a_parser("mine")) is not steps.of(a_parser("yours"))
