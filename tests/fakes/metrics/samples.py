"""Reads metrics back the way a scraper does."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from epp.observability.metrics import Metrics


def page(metrics: Metrics, accept: str = "") -> str:
    """The whole exposition as text."""
    slices, _ = metrics.exposition(accept)
    return b"".join(slices).decode()


def samples_of(metrics: Metrics, name: str) -> list[Sample]:
    """The samples called `name`."""
    starts = (name + "{", name + " ")
    lines = [line for line in page(metrics).split("\n") if line.startswith(starts)]
    families = text_string_to_metric_families("\n".join(lines))
    return [sample for family in families for sample in family.samples]


def value_of(metrics: Metrics, name: str, **labels: str) -> float:
    """The sum of the samples called `name` that have these labels; 0 if there are none."""
    wanted = labels.items()
    return sum(
        sample.value for sample in samples_of(metrics, name) if wanted <= sample.labels.items()
    )


def sum_of(page: str, name: str) -> float:
    """The sum of all series called `name` on a metrics page."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in page.splitlines()
        if line.startswith((f"{name} ", f"{name}{{"))
    )
