"""Label and field selectors as an API server understands them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Matches = Callable[[Mapping[str, Any]], bool]

_SET = re.compile(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)")  # codespell:ignore notin
_COMMA = re.compile(r",(?![^(]*\))")


def label_selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Whether labels meet all requirements of a selector; raises ValueError for nonsense."""
    requirements = [_requirement(part.strip()) for part in _COMMA.split(text) if part.strip()]
    return lambda labels: all(requirement(labels) for requirement in requirements)


def matches(label_text: str, field_text: str) -> Matches:
    """Whether an object meets a query's two selectors."""
    by_labels = label_selector(label_text)
    fields = [part.replace("==", "=").partition("=") for part in field_text.split(",") if part]
    for path, _, _ in fields:
        if path not in ("metadata.name", "metadata.namespace"):
            raise ValueError(f"field label not supported: {path}")

    def match(document: Mapping[str, Any]) -> bool:
        metadata = document["metadata"]
        return by_labels(metadata.get("labels") or {}) and all(
            metadata[path.removeprefix("metadata.")] == value for path, _, value in fields
        )

    return match


def _requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.fullmatch(text):
        key, operator, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if "!=" in text:
        key, _, value = (part.strip() for part in text.partition("!="))
        return lambda labels: labels.get(key) != value
    if "=" in text:
        key, _, value = (part.strip() for part in text.replace("==", "=").partition("="))
        return lambda labels: labels.get(key) == value
    if re.fullmatch(r"![^!\s]+", text):
        return lambda labels: text[1:] not in labels
    if re.fullmatch(r"[^!\s]+", text):
        return lambda labels: text in labels
    raise ValueError(f"unable to parse requirement: {text!r}")
