"""What a stream held is free when it ends, without a look of the garbage collector."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from epp.gateway.request_side import RequestSide
from epp.gateway.stream import Transaction
from epp.request_control.active_request import ActiveRequest
from epp.request_control.incoming import IncomingRequest
from epp.transport.grpc_stream import GrpcStream
from tests.fakes.eventually import eventually
from tests.fakes.held_streams import End, HeldStream, State
from tests.fakes.picker import Picker

PER_STREAM = (GrpcStream, Transaction, RequestSide, ActiveRequest, IncomingRequest)


def alive(*types: type) -> Counter[str]:
    """How many instances of each type there are."""
    return Counter(type(item).__name__ for item in gc.get_objects() if isinstance(item, types))


@pytest.fixture
def before() -> Iterator[Counter[str]]:
    """What was alive before the test; from then on nothing is collected."""
    gc.collect()
    gc.disable()
    yield alive(*PER_STREAM)
    gc.enable()


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("end", [end for end in End if not end.takes_the_connection])
async def test_an_ended_stream_leaves_no_object_behind(
    picker: Picker, before: Counter[str], state: State, end: End
) -> None:
    stream = HeldStream(picker.client, state, end)
    await stream.open()
    await eventually(lambda: {"GrpcStream", "Transaction"} <= (alive(*PER_STREAM) - before).keys())
    await stream.finish()
    await eventually(lambda: alive(*PER_STREAM) <= before)


@pytest.mark.parametrize("state", [State.DECIDED, State.STREAMING])
async def test_the_body_is_let_go_when_it_has_been_answered(
    picker: Picker, before: Counter[str], state: State
) -> None:
    stream = HeldStream(picker.client, state, End.NATURAL)
    await stream.open()
    assert set(alive(*PER_STREAM) - before) == {type_.__name__ for type_ in PER_STREAM[:-1]}
    await stream.finish()
