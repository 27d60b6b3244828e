"""Cost of the synchronous part alone: bytes in, bytes out, no transport."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from epp.app.request_path import RequestPathSettings, build_request_path
from epp.datastore.datastore import Datastore
from epp.gateway.service import ExternalProcessor
from epp.observability.metrics import Metrics
from epp.transport.streams import StatusCode
from epp.wire import ext_proc_pb2 as wire
from tests.benchmarks.traffic import Traffic
from tests.fakes.pickers.picker import pods, pool
from tests.fakes.pickers.simple_plan import simple_plan


@dataclass(slots=True)
class Sink:
    """An outlet that takes everything at once."""

    messages: list[bytes] = field(default_factory=list)
    is_closed: bool = False

    def send(self, messages: Iterable[bytes]) -> None:
        self.messages.extend(messages)

    def close(self, code: StatusCode = StatusCode.OK, message: str = "") -> None:
        assert code is StatusCode.OK, message
        self.is_closed = True

    def fail(self, code: StatusCode, message: str) -> None:
        raise AssertionError(message)


THREE = ("10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000")


def processor(endpoints: Sequence[str] = THREE) -> ExternalProcessor:
    """The request path with three endpoints, but without plugins."""
    datastore, metrics, rng = Datastore(), Metrics(stream_metrics=True), random.Random(1)
    plan = simple_plan(metrics, rng)
    path = build_request_path(datastore, metrics, RequestPathSettings(), plan=plan, rng=rng)
    with datastore.batch():
        datastore.set_pool(pool())
        datastore.set_pods(pods(endpoints))
        datastore.mark_synced()
    return path.processor


def answers_to_request(traffic: Traffic) -> int:
    """How many answers the request gets before any response message was sent."""
    sink = Sink()
    handler = processor()(sink)
    for message in traffic.request:
        handler.on_message(message)
    return len(sink.messages)


def whole_request(serve: ExternalProcessor, traffic: Traffic) -> Callable[[], None]:
    """A function that takes one request from its first message to its end."""

    def run() -> None:
        sink = Sink()
        handler = serve(sink)
        for message in traffic.request:
            handler.on_message(message)
        for message in traffic.response:
            handler.on_message(message)
        handler.on_half_close()
        assert sink.is_closed

    return run


def codec_only(traffic: Traffic) -> Callable[[], None]:
    """The yardstick: protobuf decodes each message and encodes each answer, nothing else."""
    sink = Sink()
    handler = processor()(sink)
    messages = (*traffic.request, *traffic.response)
    for message in messages:
        handler.on_message(message)
    answers = [wire.ProcessingResponse.FromString(answer) for answer in sink.messages]

    def run() -> None:
        for message in messages:
            wire.ProcessingRequest.FromString(message)
        for answer in answers:
            answer.SerializeToString()

    return run


def microseconds(run: Callable[[], None], count: int) -> float:
    """CPU time of one call, the mean of `count`."""
    started = time.process_time()
    for _ in range(count):
        run()
    return (time.process_time() - started) / count * 1e6
