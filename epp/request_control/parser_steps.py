"""Parsers as they are called at one extension point, which takes the time of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from epp.framework.trail import StepName

if TYPE_CHECKING:
    from epp.framework.request_handling import Parser


class ParserStep(NamedTuple):
    """One parser there."""

    label: StepName
    took: Callable[[float], None]
    """To be told the seconds that it took."""


class ParserSteps:
    """Looks each parser up once, by its type and name: a new configuration has parsers anew."""

    def __init__(
        self,
        extension_point: str,
        plugin_timer: Callable[[str, str, str], Callable[[float], None]],
    ) -> None:
        self._extension_point = extension_point
        self._plugin_timer = plugin_timer
        self._steps: dict[tuple[str, str], ParserStep] = {}

    def of(self, parser: Parser) -> ParserStep:
        """The step that `parser` takes."""
        key = parser.type, parser.name
        step = self._steps.get(key)
        if step is None:
            point = self._extension_point
            took = self._plugin_timer(point, *key)
            step = self._steps[key] = ParserStep(StepName(point, parser.name), took)
        return step
