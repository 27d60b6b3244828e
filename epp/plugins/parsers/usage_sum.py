"""Token counts of one response, put together from the blocks that report them (protocol §7.5)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from epp.framework.usage import Usage

MAX_TOKENS = 10**18
"""Largest count believed. Beyond a float's range, which JSON can reach, sums and rates fail."""

_DIGITS = re.compile(r"\s*+\d{1,18}\s*+", re.ASCII)


class UsageSum:
    """The usage of one response, put together from the blocks that report parts of it."""

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._reported_total = 0

    def add(self, block: dict[str, Any] | None) -> None:
        """Take a `usage` object, if there is one: what is not zero replaces what was known."""
        if block is None:
            return
        usage = self._usage = self._usage or Usage()
        prompt = _first_count(block, ("prompt_tokens", "input_tokens"))
        completion = _first_count(block, ("completion_tokens", "output_tokens"))
        usage.prompt_tokens = prompt or usage.prompt_tokens or prompt
        usage.completion_tokens = completion or usage.completion_tokens or completion
        cached = _cached_count(block)
        if cached is not None:
            usage.cached_tokens = cached
        total = _first_count(block, ("total_tokens",))
        if total and prompt and completion:
            self._reported_total = total

    def result(self) -> Usage | None:
        """All of it; the total is the reported one, else the sum of what was reported."""
        usage = self._usage
        if usage is None:
            return None
        parts = [n for n in (usage.prompt_tokens, usage.completion_tokens) if n is not None]
        usage.total_tokens = self._reported_total or (sum(parts) if parts else None)
        return usage


def _first_count(block: dict[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        value = block.get(name)
        if value is not None:
            return _count(value)
    return None


def _cached_count(block: dict[str, Any]) -> int | None:
    for name in ("prompt_tokens_details", "input_tokens_details"):
        details = block.get(name)
        if isinstance(details, dict) and details.get("cached_tokens") is not None:
            return _count(details["cached_tokens"])
    return _first_count(block, ("cache_read_input_tokens",))


def _count(value: object) -> int:
    """A number of tokens; text is read as a number, everything else counts 0."""
    if isinstance(value, str):
        return int(value) if _DIGITS.fullmatch(value) else 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return min(max(0, int(value)), MAX_TOKENS)
