from __future__ import annotations

from functools import partial

import pytest

from tests.fakes import streams
from tests.fakes.native_streams import native_server
from tests.fakes.streams import ServerFactory, Serving, stream_server


@pytest.fixture(params=[stream_server, native_server], ids=["grpc.aio", "native"])
def make_server(request: pytest.FixtureRequest) -> ServerFactory:
    """Servers of one transport, then of the other."""
    factory: ServerFactory = request.param
    return factory


@pytest.fixture
def serving(make_server: ServerFactory) -> Serving:
    """A running server of one transport, then of the other."""
    return partial(streams.serving, make_server=make_server)
