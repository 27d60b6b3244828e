"""The YAML documents of a file, read strictly."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from epp.framework.errors import ConfigError

_MAX_VALUES = 1_000_000
_MAX_DEPTH = 64
_CONSTRUCTOR_FAULTS = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)


def load_documents(text: str) -> list[Any]:
    """All documents that are not empty; raises `ConfigError` with line and column."""
    try:
        documents = [
            document
            for document in yaml.load_all(text, Loader=_StrictLoader)
            if document is not None
        ]
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"not valid YAML: {_where(error)}{error.problem}") from error
    except (yaml.YAMLError, RecursionError, *_CONSTRUCTOR_FAULTS) as error:
        # PyYAML lets out what Python says of `!!int x` or of the date 2026-99-99.
        raise ConfigError(f"not valid YAML: {error}") from error
    _check_size(documents)
    return documents


class _StrictLoader(yaml.CSafeLoader):
    """A key that is given twice is a mistake, not a choice of the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.tag, key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"key {key_node.value!r} is given twice",
                    problem_mark=key_node.start_mark,
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _where(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def _check_size(documents: list[Any]) -> None:
    """Aliases make a small file a large, even an endless value: refuse it before it is walked."""
    count = 0
    pending: list[tuple[Any, int]] = [(documents, 0)]
    while pending:
        value, depth = pending.pop()
        count += 1
        if count > _MAX_VALUES or depth > _MAX_DEPTH:
            raise ConfigError(
                f"more than {_MAX_VALUES} values (aliases written out), or more than"
                f" {_MAX_DEPTH} levels"
            )
        if isinstance(value, dict):
            pending.extend((item, depth + 1) for item in value.values())
        elif isinstance(value, (list, tuple, set)):
            pending.extend((item, depth + 1) for item in value)
