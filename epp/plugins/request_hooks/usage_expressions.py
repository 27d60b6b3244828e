"""Expressions over token usage, in the Common Expression Language (CEL)."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from epp.framework.errors import ConfigError

PACKAGE = "common-expression-language"
LONGEST = 1000
"""Characters of an expression. Without iteration the work is bounded by its length."""

_NAMES = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens")
_SAMPLE = {name: 40 - 7 * place for place, name in enumerate(_NAMES)}
_MEMBER_CALL = re.compile(r"\.\s*(\w+)\s*\(")

Counts = Mapping[str, int]
Evaluate = Callable[[Counts], object]


class _Program(Protocol):
    def execute(self, context: Mapping[str, object]) -> object: ...

    def variables(self) -> list[str]: ...


def compiled(text: str, *, field: str, returns: tuple[type, ...]) -> Evaluate:
    """A function of the counts that are known; raises `KeyError` when it needs another one.

    The expression is tried once with every count, so that mistakes in it end the start.
    """
    if len(text) > LONGEST:
        raise ConfigError(f"{field} has {len(text)} characters; allowed: at most {LONGEST}")
    if found := _MEMBER_CALL.search(text):
        raise ConfigError(
            f"{field} calls .{found[1]}(); allowed: operators, has() and conversions such as int()"
        )
    program = _parsed(text, field)
    unknown = sorted(set(program.variables()) - {"usage"})
    if unknown:
        raise ConfigError(f"{field} names {', '.join(unknown)}; allowed: usage.<count>")
    return _tried(program, field, returns)


def _parsed(text: str, field: str) -> _Program:
    try:
        library: Any = importlib.import_module("cel")
    except ImportError as error:
        raise ConfigError(
            f"{field} needs a package that is not installed: pip install {PACKAGE}"
        ) from error
    try:
        return cast("_Program", library.compile(text))  # the package may be missing: no stubs
    except ValueError as error:
        raise ConfigError(f"{field} is not a CEL expression: {error}") from error


def _tried(program: _Program, field: str, returns: tuple[type, ...]) -> Evaluate:
    """The program over whole numbers, or over floating-point ones if it only works with those.

    CEL does not mix the two, and the reference's counts are floating-point numbers.
    """
    problem: Exception | None = None
    for number in (int, float):
        evaluate = _over(program, number)
        try:
            result = evaluate(_SAMPLE)
        except ArithmeticError:
            return evaluate
        except TypeError as error:
            problem = error
            continue
        except KeyError as error:
            raise ConfigError(
                f"{field} reads usage.{error.args[0]}; allowed: {', '.join(_NAMES)}"
            ) from error
        except (RuntimeError, ValueError) as error:
            raise ConfigError(f"{field} can't be evaluated: {error}") from error
        if type(result) not in returns:
            names = " or ".join(kind.__name__ for kind in returns)
            raise ConfigError(f"{field} gives a {type(result).__name__}; allowed: {names}")
        return evaluate
    raise ConfigError(f"{field} can't be evaluated: {problem}") from problem


def _over(program: _Program, number: type[int] | type[float]) -> Evaluate:
    def evaluate(counts: Counts) -> object:
        return program.execute({"usage": {name: number(counts[name]) for name in counts}})

    return evaluate
