"""What is wrong with a document, and what is merely odd: collected, so that all of it is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from epp.datastore.manifest_errors import indented, value_text
from epp.framework.errors import ConfigError
from epp.support.nearest import did_you_mean

_MOST_COMPARED = 200
MOST_HINTS = 50
"""Looking for what was meant takes a while, and nobody reads hundreds of mistakes."""


@dataclass(slots=True)
class Findings:
    """Problems stop the start; warnings don't. Each is a line that begins with a YAML path."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def problem(self, path: str, text: str) -> None:
        """Add a reason not to start, once."""
        _add(self.problems, path, text)

    def warning(self, path: str, text: str) -> None:
        """Add something that may not be meant, once."""
        _add(self.warnings, path, text)

    @property
    def hints_left(self) -> int:
        """Of how many more problems it is worth telling what was meant."""
        return max(0, MOST_HINTS - len(self.problems))

    def raise_problems(self, what: str) -> None:
        """Raise one `ConfigError` for all problems, if there are any."""
        if self.problems:
            raise ConfigError(f"{what} can't be used:\n{indented(self.problems)}")


def unknown_name(given: str, what: str, known: Iterable[str], otherwise: str = "") -> str:
    """`"x" is no plugin of this document; did you mean 'y'?`, or what helps if nothing is near."""
    candidates = list(islice(known, _MOST_COMPARED))
    hint = did_you_mean(given, candidates) if candidates else ""
    return f"{value_text(given)} is no {what}{hint or otherwise}"


def listed(names: Iterable[str]) -> str:
    """`'a', 'b'`."""
    return ", ".join(repr(name) for name in names)


def _add(lines: list[str], path: str, text: str) -> None:
    line = f"{path}: {text}" if path else text
    if line not in lines:
        lines.append(line)
