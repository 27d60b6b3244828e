"""Do the model servers listen, and do their metrics say what the picker reads?"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from epp.data_layer.http_fallback import CompleteClient
from epp.data_layer.page import reason_of
from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, listing, ok, skipped, warning
from epp.diagnosis.doctor_options import HostPort
from epp.diagnosis.port_look import Unreachable, try_connection
from epp.framework.data_layer import ExtractionError, Extractor, HttpTarget, PollingSource
from epp.framework.endpoint import Endpoint
from epp.plugins.extractors.core_metrics import CoreMetricsExtractor
from epp.support.tasks import TaskOwner

PORTS, METRICS = "endpoint-ports", "endpoint-metrics"
MOST_ASKED = 64
"""Endpoints that are tried; of more the first ones."""
# Two rounds of silence fit into the time of a check.
_AT_A_TIME = 32
_PAGE_SECONDS = 2.0
_MOST_TOLD = 8
_OK = 200

Value = TypeVar("Value")


async def look_at_ports(case: Case) -> Iterable[Finding]:
    """Whether each endpoint accepts connections."""
    if not case.endpoints:
        return [skipped(PORTS, "there is no endpoint")]
    asked = case.endpoints[:MOST_ASKED]
    reasons = await _each(asked, _why_not)
    case.reachable = tuple(e for e, why in zip(asked, reasons, strict=True) if why is None)
    refusals: dict[str, list[str]] = {}
    for endpoint, why in zip(asked, reasons, strict=True):
        if why is not None:
            refusals.setdefault(str(why), []).append(endpoint.address)
    is_seen = case.reachable or any(why is not None and why.is_refusal for why in reasons)
    if not is_seen and case.options.pool.file is None and not case.is_in_pod:
        text = f"no endpoint can be reached from here: {listing(refusals)}"
        return [skipped(PORTS, text, "run it where the picker runs: kubectl exec deploy/epp")]
    findings = [
        fault(
            PORTS,
            f"{why}: {listing(addresses)}",
            "is spec.targetPorts the port that the model server listens on, on all addresses? Does"
            " a NetworkPolicy let the picker and the gateway in?",
        )
        for why, addresses in refusals.items()
    ]
    if case.reachable:
        findings.insert(0, ok(PORTS, f"accept connections: {len(case.reachable)} of {len(asked)}"))
    return findings


async def _why_not(endpoint: Endpoint) -> Unreachable | None:
    try:
        await try_connection(HostPort(endpoint.ip, endpoint.port))
    except Unreachable as why:
        return why
    return None


class _Page(NamedTuple):
    """What came of reading one endpoint's metrics."""

    endpoint: Endpoint
    engine: str = ""
    problem: str = ""
    is_read: bool = False


async def look_at_metrics(case: Case) -> Iterable[Finding]:
    """The metrics page of each endpoint, read as the configuration in force reads it."""
    if not case.reachable:
        return [skipped(METRICS, "there is no endpoint that can be reached")]
    ways = _ways(case)
    if not ways:
        return [skipped(METRICS, "the configuration reads no metrics, or is not valid")]
    source, extractor = ways[0]
    tasks = TaskOwner()
    client = CompleteClient(tasks, _PAGE_SECONDS, _AT_A_TIME)
    try:
        pages = await _each(
            case.reachable,
            lambda endpoint: _read(client, source.target(endpoint), extractor, endpoint),
        )
    finally:
        await client.aclose()
        await tasks.aclose()
    return list(_told(pages))


def _ways(case: Case) -> list[tuple[PollingSource, Extractor]]:
    if case.assembly is None:
        return []
    return [
        (source, extractor)
        for source, extractors in case.assembly.sources
        if isinstance(source, PollingSource)
        for extractor in extractors
        if isinstance(extractor, Extractor) and extractor.fills_metrics
    ]


async def _read(
    client: CompleteClient, target: HttpTarget, extractor: Extractor, endpoint: Endpoint
) -> _Page:
    where = f"{target.scheme}://{HostPort(target.host, target.port)}{target.path}"
    try:
        status, content = await client.get(target)
    except TimeoutError:
        return _Page(endpoint, problem=f"{where}: no answer within {_PAGE_SECONDS:g} s")
    except (OSError, ValueError) as error:
        return _Page(endpoint, problem=f"{where}: {reason_of(error)}")
    if status != _OK:
        return _Page(endpoint, problem=f"{where}: HTTP status {status}")
    problem, is_read = "", True
    try:
        is_read = extractor.extract(content, endpoint, time.monotonic())
    except ExtractionError as error:
        problem, is_read = str(error), error.applied
    is_core = isinstance(extractor, CoreMetricsExtractor)
    return _Page(endpoint, _engine(extractor, endpoint) if is_core else "", problem, is_read)


def _engine(extractor: Extractor, endpoint: Endpoint) -> str:
    assert isinstance(extractor, CoreMetricsExtractor)
    return extractor.engine_of(endpoint).name


def _told(pages: Sequence[_Page]) -> Iterable[Finding]:
    read = Counter(page.engine or "not told" for page in pages if page.is_read)
    if read:
        engines = listing(f"{name}: {count}" for name, count in sorted(read.items()))
        yield ok(METRICS, f"read, by engine: {engines}")
    problems: dict[tuple[str, str, bool], list[str]] = {}
    for page in pages:
        if page.problem or not page.is_read:
            key = (
                page.engine,
                page.problem or "its page has none of the series that are read",
                page.is_read,
            )
            problems.setdefault(key, []).append(page.endpoint.address)
    for (engine, problem, is_read), addresses in list(problems.items())[:_MOST_TOLD]:
        what = f" (as {engine})" if engine else ""
        text = f"{listing(addresses)}{what}: {problem}"
        judge = warning if is_read else fault
        yield judge(
            METRICS,
            text,
            "does the model server serve /metrics on its port? Label pods of other engines with"
            " llm-d.ai/engine-type, or see metrics-data-source and core-metrics-extractor in"
            " docs/plugin-reference.md. Until then the endpoint counts as stale"
            if not is_read
            else "scorers that go by it are blind there; is it another version of the engine?",
        )


async def _each(
    endpoints: Sequence[Endpoint], ask: Callable[[Endpoint], Awaitable[Value]]
) -> list[Value]:
    gate = asyncio.Semaphore(_AT_A_TIME)

    async def one(endpoint: Endpoint) -> Value:
        async with gate:
            return await ask(endpoint)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(endpoint)) for endpoint in endpoints]
    return [task.result() for task in tasks]
