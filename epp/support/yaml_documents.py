"""The YAML documents of a text, read strictly; JSON is YAML."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import Any

import yaml

_MAX_VALUES = 1_000_000
_MAX_DEPTH = 64
_LONGEST_VALUE = 80
_OUT_OF_PROPORTION = (
    f"more than {_MAX_VALUES} values (aliases written out), or more than {_MAX_DEPTH} levels"
)
_CONSTRUCTOR_FAULTS = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)


class YamlDocumentsError(ValueError):
    """The text is not YAML, a key is given twice, or it is out of proportion; says where."""


def load_documents(text: str) -> list[Any]:
    """All documents that are not empty; raises `YamlDocumentsError` with line and column."""
    documents = list(_documents(text))
    _check_size(documents)
    return documents


def load_first_document(text: str) -> tuple[Any, bool]:
    """The first document that is not empty, else None; and whether anything comes after it."""
    documents = _documents(text)
    first = next(documents, None)
    _check_size([first])
    try:
        return first, next(documents, None) is not None
    except YamlDocumentsError:
        return first, True


def _documents(text: str) -> Iterator[Any]:
    try:
        for document in yaml.load_all(text, Loader=_StrictLoader):
            if document is not None:
                yield document
    except yaml.MarkedYAMLError as error:
        raise YamlDocumentsError(f"not valid YAML: {_where(error)}{error.problem}") from error
    except YamlDocumentsError:
        raise
    except (yaml.YAMLError, RecursionError) as error:
        raise YamlDocumentsError(f"not valid YAML: {error}") from error
    except _CONSTRUCTOR_FAULTS as error:  # found late: `!!set [1]`
        raise YamlDocumentsError("not valid YAML: a tag (!!) is no tag for its value") from error


class _StrictLoader(yaml.CSafeLoader):
    """A key that is given twice is a mistake, not a choice of the last one."""

    values = 0

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except YamlDocumentsError:
            raise
        except _CONSTRUCTOR_FAULTS as error:
            # PyYAML lets out what Python says of `!!int x` or of the date 2026-99-99.
            raise yaml.constructor.ConstructorError(
                problem=f"{_value(node)} is no {node.tag.rpartition(':')[2]}",
                problem_mark=node.start_mark,
            ) from error

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
        # Writes out merge keys (`<<`), each anew: too late to refuse them when it is done.
        self.flatten_mapping(node)
        self.values += len(node.value)
        if self.values > _MAX_VALUES:
            raise YamlDocumentsError(_OUT_OF_PROPORTION)
        return super().construct_mapping(node, deep)


# Numbers of JSON that YAML 1.1 takes for text: 1e3, 1.5E2.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"-?\d+(?:\.\d+)?[eE][-+]?\d+"),
    list("-0123456789"),
)


def _value(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        return "what stands here"
    text = repr(node.value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


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
            raise YamlDocumentsError(_OUT_OF_PROPORTION)
        if isinstance(value, dict):
            pending.extend((item, depth + 1) for item in value.values())
        elif isinstance(value, (list, tuple, set)):
            pending.extend((item, depth + 1) for item in value)
