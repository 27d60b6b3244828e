from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import pytest
import uvloop

from tests.fakes.transport import streams
from tests.fakes.transport.native_streams import native_server
from tests.fakes.transport.streams import ServerFactory, Serving, stream_server


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests of the native transport and of TLS run on both loops: their transports differ."""
    if item.path.name.startswith(("test_native", "test_tls")):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture(params=[stream_server, native_server], ids=["grpc.aio", "native"])
def make_server(request: pytest.FixtureRequest) -> ServerFactory:
    """Servers of one transport, then of the other."""
    factory: ServerFactory = request.param
    return factory


@pytest.fixture
def serving(make_server: ServerFactory) -> Serving:
    """A running server of one transport, then of the other."""
    return partial(streams.serving, make_server=make_server)
