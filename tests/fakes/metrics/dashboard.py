"""The dashboard, with its variables filled in as Grafana fills them in for Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parents[3] / "config/grafana/endpoint-picker.json"
_QUERY = re.compile(r"label_values\((.*), (\w+)\)")

LabelValues = Callable[[str, str], list[str]]
"""Values of a label in the series of a selector."""


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a panel."""

    panel: str
    legend: str
    expression: str

    def filled_in(self, variables: Mapping[str, str], *, rate_interval: str, shown: str) -> str:
        """What the data source is asked for a graph of the time `shown`."""
        text = with_spans(self.expression, rate_interval=rate_interval, shown=shown)
        return _fill_in(text, variables)


def dashboard() -> dict[str, Any]:
    """The document that an operator imports."""
    document: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return document


def targets() -> Iterator[Target]:
    """Every query of every panel."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield Target(panel["title"], target["legendFormat"], target["expr"])


def with_spans(expression: str, *, rate_interval: str, shown: str) -> str:
    """An expression with the spans of time that depend on what is shown."""
    return expression.replace("$__rate_interval", rate_interval).replace("$__range", shown)


def variables(label_values: LabelValues) -> dict[str, str]:
    """What stands for each variable while it is left at `All`."""
    filled: dict[str, str] = {}
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] != "query":
            continue
        query = _QUERY.fullmatch(variable["query"]["query"])
        assert query is not None, variable["query"]["query"]
        options = label_values(query[2], _fill_in(query[1], filled))
        filled[variable["name"]] = variable.get("allValue") or _any_of(options)
    return filled


def _fill_in(text: str, variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace(f"${name}", value)
    return text


def _any_of(options: list[str]) -> str:
    escaped = [re.sub(r"[\\$^*{}\[\]'+?.()|]", r"\\\\\g<0>", option) for option in options]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
