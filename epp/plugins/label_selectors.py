"""Kubernetes label selectors: as documents, as text, and matched against labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from epp.framework.plugin import Parameters

Labels = Mapping[str, str]
Matcher = Callable[[Labels], bool]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def label_key(key: str) -> str:
    """`key` if Kubernetes takes it as a label's key; ValueError says what it would take."""
    prefix, slash, name = key.rpartition("/")
    has_prefix = 0 < len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix) is not None
    if len(name) > 63 or not _NAME.fullmatch(name) or (slash and not has_prefix):
        raise ValueError(
            f"{key!r} is not a label key; allowed: an optional DNS name and a slash, then at most"
            " 63 letters, digits, '-', '_' and '.', the first and last of them no punctuation"
        )
    return key


def label_value(value: str) -> str:
    """`value` if Kubernetes takes it as a label's value; ValueError says what it would take."""
    if len(value) > 63 or (value and not _NAME.fullmatch(value)):
        raise ValueError(
            f"{value!r} is not a label value; allowed: at most 63 letters, digits, '-', '_' and"
            " '.', the first and last of them no punctuation"
        )
    return value


LabelKey = Annotated[str, AfterValidator(label_key)]
LabelValue = Annotated[str, AfterValidator(label_value)]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


class LabelRequirement(Parameters):
    """One entry of `matchExpressions`."""

    key: LabelKey = Field(description="Label to look at.")
    operator: Operator = Field(description="How the label relates to the values.")
    values: list[LabelValue] = Field([], description="Values; only for In and NotIn.")

    @model_validator(mode="after")
    def _check_values(self) -> LabelRequirement:
        takes_values = self.operator in ("In", "NotIn")
        if takes_values and not self.values:
            raise ValueError(f"values: {self.operator} needs at least one")
        if self.values and not takes_values:
            raise ValueError(f"values: {self.operator} takes none")
        return self


class LabelSelector(Parameters):
    """Which labels are meant; an empty one means all."""

    match_labels: dict[LabelKey, LabelValue] = Field(
        {}, description="Labels that must be there with these values."
    )
    match_expressions: list[LabelRequirement] = Field(
        [], description="Further requirements; all of them must be met."
    )

    def matcher(self) -> Matcher:
        """Whether labels meet all requirements."""
        return _all(
            [
                *(_requirement(key, "In", (value,)) for key, value in self.match_labels.items()),
                *(_requirement(e.key, e.operator, e.values) for e in self.match_expressions),
            ]
        )


_SEPARATOR = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")  # codespell:ignore notin
_EQUALITY = re.compile(r"([^\s!=]+)\s*(==|=|!=)\s*([^\s!=]*)")
_EXISTENCE = re.compile(r"(!?)\s*([^\s!=]+)")


def parse_label_selector(text: str) -> Matcher:
    """A selector written as for kubectl, `app=vllm,role in (prefill,decode),!canary`.

    ValueError names the term that can't be read.
    """
    if not text.strip():
        return _all([])
    return _all([_term(term.strip()) for term in _SEPARATOR.split(text)])


def _term(text: str) -> Matcher:
    if found := _SET.fullmatch(text):
        key, operator, values = found.groups()
        listed = [label_value(value.strip()) for value in values.split(",")]
        return _requirement(label_key(key), "In" if operator == "in" else "NotIn", listed)
    if found := _EQUALITY.fullmatch(text):
        key, operator, value = found.groups()
        named: Operator = "NotIn" if operator == "!=" else "In"
        return _requirement(label_key(key), named, (label_value(value),))
    if found := _EXISTENCE.fullmatch(text):
        absent, key = found.groups()
        return _requirement(label_key(key), "DoesNotExist" if absent else "Exists", ())
    raise ValueError(
        f"{text!r} is no term of a label selector; allowed: terms such as app=vllm, app!=vllm,"
        " app, !app, app in (a,b) or app notin (a,b), with commas between them"  # codespell:ignore
    )


def _requirement(key: str, operator: Operator, values: Iterable[str]) -> Matcher:
    """One requirement; NotIn is met by labels without the key too, as in Kubernetes."""
    allowed = frozenset(values)
    if operator == "In":
        return lambda labels: labels.get(key) in allowed
    if operator == "NotIn":
        return lambda labels: labels.get(key) not in allowed
    if operator == "Exists":
        return lambda labels: key in labels
    return lambda labels: key not in labels


def _all(requirements: list[Matcher]) -> Matcher:
    if len(requirements) == 1:
        return requirements[0]
    return lambda labels: all(meets(labels) for meets in requirements)
