"""What a stream held is free when it ends, without a look of the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from epp.gateway.request_side import RequestSide
from epp.gateway.stream import Transaction
from epp.request_control.active_request import ActiveRequest
from epp.request_control.director import IncomingRequest
from epp.transport.grpc_stream import GrpcStream
from tests.fakes.eventually import eventually
from tests.fakes.held_streams import End, HeldStream, State
from tests.fakes.picker import Picker

PER_STREAM = (GrpcStream, Transaction, RequestSide, ActiveRequest, IncomingRequest)


def alive(*types: type) -> list[str]:
    """Names of the types of all objects that are instances of `types`."""
    return [type(item).__name__ for item in gc.get_objects() if isinstance(item, types)]


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("end", [end for end in End if not end.takes_the_connection])
async def test_an_ended_stream_leaves_no_object_behind(
    picker: Picker, state: State, end: End
) -> None:
    stream = HeldStream(picker.client, state, end)
    await stream.open()
    await eventually(lambda: set(alive(*PER_STREAM)) >= {"GrpcStream", "Transaction"})
    await stream.finish()
    await eventually(lambda: not alive(*PER_STREAM))


@pytest.mark.parametrize("state", [State.DECIDED, State.STREAMING])
async def test_the_body_is_let_go_when_it_has_been_answered(picker: Picker, state: State) -> None:
    stream = HeldStream(picker.client, state, End.NATURAL)
    await stream.open()
    assert alive(ActiveRequest)
    assert not alive(IncomingRequest)
    await stream.finish()
