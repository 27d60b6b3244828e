"""Kubernetes Events about one InferencePool: few, counted instead of repeated, and never needed."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Literal

import msgspec
import structlog

from epp.datastore.inference_pool import GROUP
from epp.kubernetes.answers import KubeStatusError, KubeUnreachable, status_error
from epp.kubernetes.client import KubeClient
from epp.kubernetes.envelopes import UNREADABLE

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 5.0
"""Between two writes."""
SERIES_SECONDS = 600.0
"""How long the same reason is counted on in the same Event."""
TIMEOUT_SECONDS = 10.0
MOST_REASONS = 32
LONGEST_MESSAGE = 1000
COMPONENT = "inference-endpoint-picker"
_MERGE_PATCH = "application/merge-patch+json"


class EventOutcome(StrEnum):
    """What became of an Event."""

    WRITTEN = "written"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something worth an Event."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


@dataclass(slots=True)
class _Waiting:
    note: Note
    count: int


@dataclass(slots=True)
class _Series:
    name: str
    count: int
    until: float


class _Metadata(msgspec.Struct, frozen=True):
    uid: str = ""


class _Pool(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Pools(msgspec.Struct, frozen=True):
    items: tuple[_Pool, ...] = ()


class PoolEventWriter:
    """Writes what it is told one by one; off for good once the API server forbids it."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        pool_name: str,
        counted: Callable[[str], None],
        pause: float = PAUSE_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._pool_name = pool_name
        self._counted = counted
        self._pause = pause
        self._now = now
        self._host = socket.gethostname()
        self._events = f"/api/v1/namespaces/{namespace}/events"
        self._pools = f"/apis/{GROUP}/v1/namespaces/{namespace}/inferencepools"
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._series: OrderedDict[str, _Series] = OrderedDict()
        self._any = asyncio.Event()
        self._is_off = False

    def tell(self, note: Note) -> None:
        """Write it soon; what waits already for the same reason is counted with it."""
        if self._is_off:
            return
        waiting = self._waiting.setdefault(note.reason, _Waiting(note, 0))
        waiting.note = note
        waiting.count += 1
        if len(self._waiting) > MOST_REASONS:
            self._waiting.popitem(last=False)
        self._any.set()

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self._any.wait()
            _, waiting = self._waiting.popitem(last=False)
            if not self._waiting:
                self._any.clear()
            await self._write(waiting.note, waiting.count)
            await asyncio.sleep(self._pause)

    async def _write(self, note: Note, count: int) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._count_on_or_create(note, count)
        except KubeStatusError as error:
            self._counted(EventOutcome.FAILED)
            if error.status == HTTPStatus.FORBIDDEN:
                self._switch_off(str(error))
            else:
                log.debug("event not written", reason=note.reason, status=error.status)
        except (KubeUnreachable, TimeoutError, *UNREADABLE) as error:
            self._counted(EventOutcome.FAILED)
            log.debug("event not written", reason=note.reason, error=type(error).__name__)

    def _switch_off(self, problem: str) -> None:
        self._is_off = True
        self._waiting.clear()
        self._any.clear()
        log.warning(
            "no Kubernetes Events: the rights of config/components/events are missing",
            problem=problem,
        )

    async def _count_on_or_create(self, note: Note, count: int) -> None:
        series = self._series.get(note.reason)
        if series is not None and self._now() < series.until:
            series.count += count
            changes = {**_latest(note), "count": series.count}
            try:
                await self._send("PATCH", f"{self._events}/{series.name}", changes, _MERGE_PATCH)
            except KubeStatusError as error:
                if error.status != HTTPStatus.NOT_FOUND:  # else it has expired, or was deleted
                    raise
            else:
                self._counted(EventOutcome.WRITTEN)
                return
        await self._create(note, count)

    async def _create(self, note: Note, count: int) -> None:
        uid = await self._uid_of_pool()
        if not uid:
            return  # there is nothing that it could be about
        event = self._event(note, count, uid)
        await self._send("POST", self._events, event, "")
        self._counted(EventOutcome.WRITTEN)
        name, until = event["metadata"]["name"], self._now() + SERIES_SECONDS
        self._series[note.reason] = _Series(name, count, until)
        if len(self._series) > MOST_REASONS:
            self._series.popitem(last=False)

    def _event(self, note: Note, count: int, uid: str) -> dict[str, Any]:
        latest = _latest(note)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{self._pool_name[:200]}.{secrets.token_hex(8)}",
                "namespace": self._namespace,
            },
            "involvedObject": {
                "apiVersion": f"{GROUP}/v1",
                "kind": "InferencePool",
                "name": self._pool_name,
                "namespace": self._namespace,
                "uid": uid,
            },
            "type": note.type,
            "reason": note.reason,
            "count": count,
            "firstTimestamp": latest["lastTimestamp"],
            **latest,
            "source": {"component": COMPONENT, "host": self._host},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._host,
        }

    async def _uid_of_pool(self) -> str:
        # Asked each time, for a pool of the same name may be another one.
        query = {"fieldSelector": f"metadata.name={self._pool_name}"}
        async with self._client.request("GET", self._pools, query=query) as response:
            if response.status >= HTTPStatus.BAD_REQUEST:
                raise await status_error(response)
            pools = msgspec.json.decode(await response.read(), type=_Pools)
        return pools.items[0].metadata.uid if pools.items else ""

    async def _send(
        self, method: str, path: str, document: Mapping[str, Any], content_type: str
    ) -> None:
        body = msgspec.json.encode(document)
        async with self._client.request(
            method, path, body=body, content_type=content_type
        ) as response:
            if response.status >= HTTPStatus.BAD_REQUEST:
                raise await status_error(response)


def _latest(note: Note) -> dict[str, Any]:
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"message": note.message[:LONGEST_MESSAGE], "lastTimestamp": moment}
