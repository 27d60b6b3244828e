"""Sources, extractors and pages for tests of the data layer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from epp.data_layer.page import PageReader
from epp.framework.data_layer import (
    EndpointListener,
    ExtractionError,
    Extractor,
    HttpTarget,
    PollingSource,
)
from epp.framework.endpoint import Endpoint
from epp.support.addresses import join_host_port


class PageSource(PollingSource):
    """Asks every endpoint for `/metrics`."""

    def __init__(
        self,
        name: str = "",
        *,
        interval: float | None = None,
        path: str = "/metrics",
    ) -> None:
        self.identify(type="page-source", name=name)
        self.interval_seconds = interval
        self._path = path

    def target(self, endpoint: Endpoint) -> HttpTarget:
        return HttpTarget(
            scheme="http",
            host=endpoint.ip,
            port=int(endpoint.labels.get("metrics-port", endpoint.port)),
            path=self._path,
        )


class LoadExtractor(Extractor):
    """Reads lines such as `waiting 3`; `kv` is expected beside `waiting`."""

    fills_metrics = True

    def __init__(self, type: str = "load-extractor") -> None:
        self.identify(type=type, name="")

    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        values = dict(line.split() for line in payload.decode().splitlines())
        if "waiting" not in values:
            raise ExtractionError("no line `waiting`", applied=False)
        metrics = replace(
            endpoint.state.metrics,
            waiting_queue_size=int(values["waiting"]),
            cache_block_size=16,
            updated_at=now,
        )
        if "kv" in values:
            metrics = replace(metrics, kv_cache_usage=float(values["kv"]))
        endpoint.state.metrics = metrics
        if "kv" not in values:
            raise ExtractionError("no line `kv`", applied=True)
        return True


class HeavyExtractor(LoadExtractor):
    """Takes its time."""

    def __init__(self) -> None:
        super().__init__("heavy-extractor")
        self.take: Callable[[], None] = lambda: None

    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        self.take()
        return super().extract(payload, endpoint, now)


class AttributeExtractor(Extractor):
    """Keeps the last page as an attribute."""

    def __init__(self) -> None:
        self.identify(type="attribute-extractor", name="")

    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        endpoint.state.attributes["page"] = payload
        return True


class FailingExtractor(Extractor):
    """Has a bug."""

    def __init__(self, fault: type[BaseException] = ZeroDivisionError) -> None:
        self.identify(type="failing-extractor", name="")
        self._fault = fault

    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        raise self._fault


class RecordingListener(EndpointListener):
    """Remembers what it was told."""

    def __init__(self, name: str = "recording-listener") -> None:
        self.identify(type="recording-listener", name=name)
        self.told: list[str] = []

    def endpoint_added(self, endpoint: Endpoint) -> None:
        self.told.append(f"added {endpoint}")

    def endpoint_replaced(self, endpoint: Endpoint) -> None:
        self.told.append(f"replaced {endpoint}")

    def endpoint_removed(self, endpoint: Endpoint) -> None:
        self.told.append(f"removed {endpoint}")


@dataclass(slots=True)
class FakeServer:
    """How one address answers."""

    page: bytes | None = b"waiting 1\nkv 0.5"
    """None: never."""
    failure: str = ""
    """Instead of the page."""
    delay: float = 0.001
    asked_at: list[float] = field(default_factory=list)
    opened: int = 0
    in_flight: int = 0
    most_in_flight: int = 0

    @property
    def gaps(self) -> list[float]:
        """Times between questions."""
        return [b - a for a, b in zip(self.asked_at, self.asked_at[1:], strict=False)]


class FakePages:
    """Pages without sockets; servers by `ip:port` and path, made when they are first asked."""

    def __init__(self) -> None:
        self.servers: dict[str, FakeServer] = {}
        self.is_closed = False

    def server(self, address: str) -> FakeServer:
        return self.servers.setdefault(address, FakeServer())

    def open(self, target: HttpTarget, reader: PageReader) -> _FakePage:
        address = join_host_port(target.host, target.port)
        if target.path != "/metrics":
            address += target.path
        server = self.server(address)
        server.opened += 1
        return _FakePage(server, reader)

    async def aclose(self) -> None:
        self.is_closed = True


class _FakePage:
    def __init__(self, server: FakeServer, reader: PageReader) -> None:
        self._server = server
        self._reader = reader
        self._answer: asyncio.TimerHandle | None = None
        self._is_asking = False

    def fetch(self) -> None:
        server = self._server
        loop = asyncio.get_running_loop()
        server.asked_at.append(loop.time())
        server.in_flight += 1
        server.most_in_flight = max(server.most_in_flight, server.in_flight)
        self._is_asking = True
        if server.failure or server.page is not None:
            self._answer = loop.call_later(server.delay, self._tell)

    def abort(self) -> None:
        if self._is_asking:
            self._is_asking = False
            self._server.in_flight -= 1
        if self._answer is not None:
            self._answer.cancel()

    close = abort

    def _tell(self) -> None:
        server = self._server
        self._is_asking = False
        server.in_flight -= 1
        if server.failure:
            self._reader.failure(server.failure)
        elif server.page is not None:
            self._reader.page(server.page)
