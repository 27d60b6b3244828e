"""Metrics pages over HTTP, and what a test expects of one, written as such a page is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from prometheus_client.parser import text_string_to_metric_families

from epp.admin.http_port import HttpPort
from epp.admin.metrics_pages import metrics_pages
from epp.observability.metrics import Metrics
from tests.fakes.pickers.applications import get

Series: TypeAlias = tuple[str, frozenset[tuple[str, str]]]

_LINE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_PART = re.compile(r"_(bucket|sum|count)$")
SECONDS = 10.0


@dataclass(frozen=True)
class Expectation:
    """One series and its value: a number, `>0`, or `absent`."""

    name: str
    labels: Mapping[str, str]
    value: str

    @property
    def metric(self) -> str:
        """Name of the metric the series belongs to."""
        return _PART.sub("", self.name)

    def holds(self, page: Mapping[Series, float]) -> bool:
        found = page.get((self.name, frozenset(self.labels.items())))
        if found is None or self.value == "absent":
            return found is None and self.value == "absent"
        return found > 0 if self.value == ">0" else found == pytest.approx(float(self.value))


def expectations(text: str, **short: str) -> list[Expectation]:
    """A line each; `<name>` within a line stands for what `short` says."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        for name, meaning in short.items():
            line = line.replace(f"<{name}>", meaning)
        match = _LINE.fullmatch(line)
        assert match is not None, f"not a line of a page: {line}"
        labels = dict(_LABEL.findall(match["labels"] or ""))
        found.append(Expectation(match["name"], labels, match["value"]))
    return found


def read_page(text: str) -> dict[Series, float]:
    """Every series with its value; none is there twice."""
    page: dict[Series, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series = sample.name, frozenset(sample.labels.items())
            assert series not in page, f"twice: {series}"
            page[series] = sample.value
    return page


async def scrape(port: int) -> dict[Series, float]:
    """The page as Prometheus sees it."""
    return read_page(await (await get(port, "/metrics")).text())


async def scraped(port: int, expected: Sequence[Expectation]) -> dict[Series, float]:
    """The page once it is as expected: some of it is told of a moment later."""
    page: dict[Series, float] = {}
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                page = await scrape(port)
                if all(each.holds(page) for each in expected):
                    return page
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(_difference(page, expected))


@asynccontextmanager
async def page_of(metrics: Metrics) -> AsyncIterator[int]:
    """The port that serves these metrics until the block is left."""
    pages = HttpPort(metrics_pages(metrics, dict), "127.0.0.1", 0, port_flag="--metrics-port")
    port = await pages.start()
    try:
        yield port
    finally:
        await pages.stop()


def _difference(page: Mapping[Series, float], expected: Sequence[Expectation]) -> str:
    lines = []
    for each in expected:
        if not each.holds(page):
            lines.append(f"expected {each.name} {dict(each.labels)} {each.value}, there are:")
            lines += [
                f"    {dict(sorted(labels))} {value}"
                for (name, labels), value in page.items()
                if name == each.name
            ]
    return "\n".join(lines)
