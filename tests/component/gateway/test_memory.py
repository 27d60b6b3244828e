"""What a stream held is free when it ends, without a look of the garbage collector."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from epp.app.request_path import RequestPathSettings
from epp.datastore.inference_pool import FailureMode
from epp.gateway.duplex_request import DuplexRequest
from epp.gateway.pending_request import PendingRequest
from epp.gateway.stream import Transaction
from epp.request_control.active_request import ActiveRequest
from epp.request_control.incoming import IncomingRequest
from epp.tracing.tracer import Tracer
from tests.fakes.eventually import eventually
from tests.fakes.logs import awaitable_logs
from tests.fakes.pickers.chosen_transport import STREAM
from tests.fakes.pickers.held_streams import EVENT_STREAM, End, HeldStream, State
from tests.fakes.pickers.picker import Picker, running_picker
from tests.fakes.plugins.failing import OWN
from tests.fakes.tracing import SpanRecords

PER_STREAM = (STREAM, Transaction, DuplexRequest, PendingRequest, ActiveRequest, IncomingRequest)


def alive(*types: type) -> Counter[str]:
    """How many instances of each type there are."""
    return Counter(type(item).__name__ for item in gc.get_objects() if isinstance(item, types))


@pytest.fixture
def before() -> Iterator[Counter[str]]:
    """What is alive of the test's own before it; from then on nothing is collected.

    What is frozen is not looked through: with all that other tests imported that took a second.
    """
    gc.disable()
    gc.freeze()
    yield alive(*PER_STREAM)
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("end", [end for end in End if not end.takes_the_connection])
async def test_an_ended_stream_leaves_no_object_behind(
    picker: Picker, before: Counter[str], state: State, end: End
) -> None:
    stream = HeldStream(picker.client, state, end)
    await stream.open()
    await eventually(
        lambda: {STREAM.__name__, "Transaction"} <= (alive(*PER_STREAM) - before).keys()
    )
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


async def test_a_rejected_request_of_an_observing_gateway_keeps_no_body(
    picker: Picker, before: Counter[str]
) -> None:
    exchange = picker.exchange(observability_mode=True)
    await exchange.post(b"no JSON")
    await eventually(lambda: picker.metric("epp_requests_rejected_total") == 1)
    assert "IncomingRequest" not in alive(*PER_STREAM) - before
    assert picker.path.guard.streams == 1
    exchange.cancel()


OPEN_RESPONSES = 50
PROMPT_BYTES = 1 << 20
LARGEST_STREAM_BYTES = 1 << 16
LEARNING = """
plugins:
- {type: prefix-cache-scorer}
- {type: inflight-load-producer, parameters: {addEstimatedOutputTokens: true}}
- {type: session-affinity-scorer}
- {type: agent-identity}
"""


@contextmanager
def traced_memory() -> Iterator[Callable[[], int]]:
    """Bytes that were allocated in the block and are still held."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("endpoint_picker", ["max-score-picker", "broken-picker"])
async def test_open_responses_keep_nothing_of_their_prompts(endpoint_picker: str) -> None:
    config = f"{LEARNING}- {{type: {endpoint_picker}}}"
    body = b'{"model":"m","prompt":"%s"}' % (b"word " * (PROMPT_BYTES // 5))
    async with running_picker(
        config=config, own_plugins=OWN, failure_mode=FailureMode.FAIL_OPEN
    ) as picker:
        streams = [picker.exchange() for _ in range(OPEN_RESPONSES)]
        with awaitable_logs() as lines, traced_memory() as held:
            for stream in streams:
                await stream.post(body)
                await stream.picked()
                await stream.response_headers(EVENT_STREAM)
                await stream.answer()
            while not lines.empty():  # a traceback keeps what it passed through
                lines.get_nowait()
            gc.collect()
            held_bytes = held()
        assert picker.in_flight == {"10.0.0.1:8000": OPEN_RESPONSES}
        assert held_bytes < OPEN_RESPONSES * LARGEST_STREAM_BYTES
        for stream in streams:
            stream.cancel()
        await picker.settled()


LARGE_POOL = [f"10.0.{number // 100}.{number % 100 + 1}:8000" for number in range(1000)]
SCORED = """
plugins:
- {type: prefix-cache-scorer}
- {type: active-request-scorer}
- {type: max-score-picker}
"""


@pytest.mark.parametrize("is_traced", [False, True])
async def test_open_responses_keep_nothing_of_endpoints_that_were_not_picked(
    is_traced: bool,
) -> None:
    settings = RequestPathSettings(decision_log_size=0)
    tracer = Tracer(SpanRecords(), 1.0) if is_traced else None
    async with running_picker(
        LARGE_POOL, config=SCORED, settings=settings, tracer=tracer
    ) as picker:
        streams = [picker.exchange() for _ in range(OPEN_RESPONSES)]
        with awaitable_logs(), traced_memory() as held:
            for number, stream in enumerate(streams):
                await stream.post(b'{"model":"m","prompt":"%s"}' % (b"%d " % number * 500))
                await stream.picked()
                await stream.response_headers(EVENT_STREAM)
                await stream.answer()
            gc.collect()
            held_bytes = held()
        # What is known of a thousand endpoints is more.
        assert held_bytes < OPEN_RESPONSES * 32_000
        for stream in streams:
            stream.cancel()
        await picker.settled()
