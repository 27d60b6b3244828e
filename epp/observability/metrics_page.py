"""Writes `docs/metrics.md` from the catalogue: `python -m epp.observability.metrics_page`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from epp.framework.metric_specs import MetricSpec
from epp.observability.answer_metrics import MAX_REJECTION_REASONS
from epp.observability.exposition import format_bound
from epp.observability.instruments import MAX_SERIES_PER_FAMILY
from epp.observability.label_caps import MAX_VALUE_LENGTH
from epp.observability.metric_catalogue import CATALOGUE
from epp.observability.request_series import (
    MAX_FAIRNESS_IDS,
    MAX_LABEL_SETS,
    MAX_MODELS,
    MAX_PRIORITIES,
)

_INTRODUCTION = f"""\
# Metrics

Served as plain HTTP `GET /metrics` on `--metrics-port` (9090), in the Prometheus text format or,
when the scraper's `Accept` header asks for it, in OpenMetrics. There are no `_created` series. CPU,
memory and file descriptors of the process are there as `process_*`.

`llm_d_epp_*` have the names, labels and buckets of the reference Endpoint Picker, so that
dashboards and alerts work unchanged; the bucket 32778 is spelt as there. Each name in the column
"was" is written too, as a sum over the labels it does not have, until it is turned off with
`--deprecated-metrics=false`. `epp_*` are additions. Series that belong to plugins are with
[the plugins](plugin-reference.md).

Label values that clients choose are bounded for the life of the process:

| label | distinct values |
|---|---|
| `model_name` and `target_model_name` together | {MAX_MODELS} |
| `fairness_id` | {MAX_FAIRNESS_IDS} |
| `priority` | {MAX_PRIORITIES} |
| combinations of these | {MAX_LABEL_SETS}; new ones then lose `fairness_id`, later the models too |
| `reason` of rejections | {MAX_REJECTION_REASONS} |
| any other label | {MAX_SERIES_PER_FAMILY} series of its metric; then the most varied gives way |

What comes later, or is longer than {MAX_VALUE_LENGTH} characters, is `other`; what is empty stays
empty. The page is written in slices, so that even the largest one does not hold up requests.

Traffic of a thousand models to a thousand endpoints makes 400,000 series at most, 50 MB, or 1.5 MB
for a scraper that takes gzip, as Prometheus does; 40 % less without the deprecated names. When
every combination is in use, too, it is two and a half times as much, and does not grow from there.
"""


def metrics_page() -> str:
    """The page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    for section in CATALOGUE:
        yield f"## {section.title}\n"
        yield from metric_table(section.metrics)
        yield ""


def metric_table(specs: Iterable[MetricSpec]) -> Iterator[str]:
    """The lines of a table of `specs`."""
    yield "| name | type | labels | meaning | buckets | was |"
    yield "|---|---|---|---|---|---|"
    yield from map(_row, specs)


def _row(spec: MetricSpec) -> str:
    twin = ""
    if spec.twin is not None:
        twin = f"`{spec.twin.name}`"
        if spec.twin.labels != spec.labels:
            twin += f" with {_code(spec.twin.labels) or 'no label'}"
    cells = (
        f"`{spec.name}`",
        spec.type,
        _code(spec.labels),
        spec.help.removeprefix("[ALPHA] "),
        " ".join(format_bound(bound, openmetrics=False) for bound in spec.buckets),
        twin,
    )
    return f"| {' | '.join(cells)} |"


def _code(labels: tuple[str, ...]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


if __name__ == "__main__":
    sys.stdout.write(metrics_page())
