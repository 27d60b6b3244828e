"""Reads PromQL as far as it takes to know which series and labels an expression is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"\\]|\\.)*")
    | (?P<duration>\d+(?:ms|[smhdwy]))
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<name>[A-Za-z_:][\w:]*)
    | (?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^<>=@(){}\[\],])
    )""",
    re.X,
)
_GROUPING = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = frozenset({"and", "or", "unless", "bool", "offset"})
_RANGED = frozenset({"rate", "increase", "irate"})


@dataclass
class Selector:
    """A metric, the labels it is narrowed by, and the function it is an argument of."""

    metric: str
    labels: set[str] = field(default_factory=set)
    function: str = ""
    has_range: bool = False

    @property
    def is_rate(self) -> bool:
        """Whether its growth is asked for."""
        return self.function in _RANGED


@dataclass
class Expression:
    """What one expression reads, and the labels it groups by."""

    selectors: list[Selector] = field(default_factory=list)
    grouping: set[str] = field(default_factory=set)


def tokens_of(text: str) -> list[str]:
    """Every token; raises `ValueError` for what is none."""
    found, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"not PromQL at {text[position : position + 20]!r} of {text!r}")
        found.append(match[0].strip())
        position = match.end()
    return found


def read_promql(text: str) -> Expression:
    """`text` as an expression; raises `ValueError` where brackets do not match."""
    tokens = tokens_of(text)
    _check_brackets(tokens, text)
    expression = Expression()
    calls: list[str] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token in _GROUPING:
            names = list(_until(tokens, position + 2, ")"))
            expression.grouping.update(name for name in names if name != ",")
            position += len(names) + 2
        elif token == "(":
            calls.append(
                tokens[position - 1] if position and _is_name(tokens[position - 1]) else ""
            )
        elif token == ")":
            calls.pop()
        elif _is_name(token) and token not in _WORDS and not _is_call(tokens, position):
            position += _read_selector(tokens, position, calls, expression)
        elif token == "{":
            raise ValueError(f"a selector without a metric in {text!r}")
        position += 1
    return expression


def _read_selector(
    tokens: Sequence[str], position: int, calls: Sequence[str], expression: Expression
) -> int:
    """Take a selector; returns how many tokens there are beyond its name."""
    selector = Selector(tokens[position], function=calls[-1] if calls else "")
    expression.selectors.append(selector)
    beyond = 0
    if tokens[position + 1 : position + 2] == ["{"]:
        inner = list(_until(tokens, position + 2, "}"))
        selector.labels = {token for token in inner if _is_name(token)}
        beyond = len(inner) + 2
    if tokens[position + beyond + 1 : position + beyond + 2] == ["["]:
        selector.has_range = True
        beyond += len(list(_until(tokens, position + beyond + 2, "]"))) + 2
    return beyond


def _is_call(tokens: Sequence[str], position: int) -> bool:
    """Whether the name at `position` is a function, or an aggregation with its grouping."""
    following = tokens[position + 1 : position + 2]
    return following == ["("] or (bool(following) and following[0] in {"by", "without"})


def _is_name(token: str) -> bool:
    return re.fullmatch(r"[A-Za-z_:][\w:]*", token) is not None


def _until(tokens: Sequence[str], start: int, end: str) -> Iterator[str]:
    for token in tokens[start:]:
        if token == end:
            return
        yield token


def _check_brackets(tokens: Sequence[str], text: str) -> None:
    pairs = {")": "(", "]": "[", "}": "{"}
    opened: list[str] = []
    for token in tokens:
        if token in pairs.values():
            opened.append(token)
        elif token in pairs and (not opened or opened.pop() != pairs[token]):
            raise ValueError(f"{token} closes nothing in {text!r}")
    if opened:
        raise ValueError(f"{opened[-1]} is not closed in {text!r}")
