"""A picker behind a native connection, without sockets: reads in, writes out, one at a time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from itertools import count

from hpack import Encoder

from epp.app.request_path import RequestPathSettings, build_request_path
from epp.config.built_in import BUILT_IN
from epp.datastore.datastore import Datastore
from epp.framework.endpoint import EndpointMetrics
from epp.gateway.service import METHOD
from epp.observability.metrics import Metrics
from epp.transport.native.budgets import Budget, HeldBytes, OpenStreams
from epp.transport.native.frames import (
    END_HEADERS,
    HEADERS,
    LARGEST_WINDOW,
    PREFACE,
    SETTINGS_ACK,
    Setting,
    frame,
    settings,
    window_update,
)
from epp.transport.native.keepalive import Patience
from epp.transport.native.limits import ConnectionLimits
from epp.transport.native.methods import StreamMethod
from epp.transport.native.protocol import NativeProtocol, Shared
from tests.fakes.pickers.picker import Configured, pods, pool
from tests.fakes.transport.http2_peer import REQUEST, data, message

ADDRESSES = ("10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000")
_HEAD = [(name, METHOD if name == ":path" else value) for name, value in REQUEST]
_WIDE = LARGEST_WINDOW >> 3


class WriteLog(asyncio.Transport):
    """A socket that takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered."""


class WiredPicker:
    """The built-in configuration and three endpoints with equal load.

    To be made while the event loop runs.
    """

    def __init__(self) -> None:
        self.metrics = Metrics(stream_metrics=True)
        datastore = Datastore()
        with datastore.batch():
            datastore.set_pool(pool())
            datastore.set_pods(pods(ADDRESSES))
            datastore.mark_synced()
        self._endpoints = datastore.snapshot().endpoints
        for endpoint in self._endpoints:
            endpoint.state.metrics = EndpointMetrics(updated_at=time.monotonic())
        path = build_request_path(
            datastore,
            self.metrics,
            RequestPathSettings(),
            plan=Configured((), self.metrics, time.monotonic).assemble(BUILT_IN).plan,
            rng=random.Random(1),
        )
        assert self.metrics.streams is not None
        method = StreamMethod(METHOD, path.processor, limits=None, observer=self.metrics.streams)
        shared = Shared(
            methods={METHOD.encode(): method},
            budget=Budget(held=HeldBytes(1 << 30), streams=OpenStreams(1 << 16)),
            limits=ConnectionLimits(),
            patience=Patience(),
            on_empty=lambda: None,
            stopwatch=lambda: 0.0,
        )
        self._encoder = Encoder()
        self._encoder.header_table_size = 0
        self._numbers = count(1, 2)
        self._transport = WriteLog()
        self._protocol = NativeProtocol(shared, asyncio.get_running_loop())
        self._protocol.connection_made(self._transport)
        self.read(PREFACE + settings({Setting.INITIAL_WINDOW_SIZE: _WIDE}) + SETTINGS_ACK)
        self.read(window_update(0, _WIDE))

    @property
    def in_flight(self) -> int:
        return sum(endpoint.load.in_flight for endpoint in self._endpoints)

    def read(self, received: bytes) -> list[bytes]:
        """What comes from the socket at once; returns what is written for it."""
        self._transport.writes.clear()
        self._protocol.data_received(received)
        return list(self._transport.writes)

    def close(self) -> None:
        """The gateway is gone."""
        self._protocol.connection_lost(None)

    def reads_of(self, *messages: bytes) -> Iterator[bytes]:
        """A new stream, message by message, up to its end."""
        number = next(self._numbers)
        head = frame(HEADERS, END_HEADERS, number, self._encoder.encode(_HEAD))
        for content in messages:
            yield head + data(number, message(content))
            head = b""
        yield data(number, b"", end=True)
