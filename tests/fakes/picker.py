"""An Endpoint Picker in this process, behind a real gRPC port, with a pool a test can change."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from epp.app.assembly import RequestPath, RequestPathSettings, build_request_path
from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import FailureMode, InferencePool
from epp.datastore.pods import Pod
from epp.framework.endpoint import Endpoint
from epp.gateway.service import SERVICE_NAME
from epp.observability.metrics import Metrics
from epp.transport.grpc_aio import GrpcServer, MessageLimits, StreamService
from tests.fakes.eventually import eventually
from tests.fakes.gateway_client import Exchange, GatewayClient, gateway_client


class Records:
    """A request log that keeps what it is given."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def write(self, record: Any) -> None:
        self.all.append(record)


class Picker:
    """What a test holds of a running Endpoint Picker."""

    def __init__(self, datastore: Datastore, metrics: Metrics, path: RequestPath) -> None:
        self.datastore = datastore
        self.metrics = metrics
        self.path = path
        self.records = Records()
        self.client: GatewayClient

    def exchange(self, **modes: Any) -> Exchange:
        return self.client.exchange(**modes)

    def endpoint(self, address: str) -> Endpoint:
        return self.datastore.snapshot().by_address[address]

    @property
    def in_flight(self) -> dict[str, int]:
        return {
            endpoint.address: endpoint.load.in_flight
            for endpoint in self.datastore.snapshot().endpoints
        }

    def metric(self, name: str, **labels: str) -> float:
        """Value of a series on the metrics page; 0 when it is not there."""
        from prometheus_client.parser import text_string_to_metric_families

        page = b"".join(self.metrics.exposition()[0]).decode()
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return 0.0

    async def settled(self) -> None:
        """Wait until no stream is open and nothing is in flight."""
        await eventually(lambda: not self.path.guard.streams and not any(self.in_flight.values()))
        assert self.path.guard.buffered_bytes == 0


def pods(addresses: Sequence[str]) -> list[Pod]:
    """One ready pod per `ip:port`."""
    made = []
    for index, address in enumerate(addresses):
        ip, _, port = address.rpartition(":")
        made.append(
            Pod(
                uid=f"uid-{index}",
                name=f"pod-{index}",
                namespace="default",
                ips=(ip.strip("[]"),),
                ready=True,
                fixed_port=int(port),
            )
        )
    return made


def pool(failure_mode: FailureMode | None = FailureMode.FAIL_CLOSE) -> InferencePool:
    return InferencePool(
        name="pool", namespace="default", target_ports=(8000,), failure_mode=failure_mode
    )


@asynccontextmanager
async def running_picker(
    addresses: Sequence[str] = ("10.0.0.1:8000",),
    *,
    failure_mode: FailureMode | None = FailureMode.FAIL_CLOSE,
    settings: RequestPathSettings | None = None,
    synced: bool = True,
    seed: int = 1,
    message_limits: MessageLimits | None = None,
    **parts: Any,
) -> AsyncIterator[Picker]:
    """Serve the given endpoints until the block is left; then nothing may be left over."""
    datastore = Datastore()
    metrics = Metrics(stream_metrics=True)
    records = Records()
    path = build_request_path(
        datastore,
        metrics,
        settings or RequestPathSettings(),
        rng=random.Random(seed),
        request_log=records,  # type: ignore[arg-type]  # keeps records instead of writing them
        **parts,
    )
    if synced:
        with datastore.batch():
            datastore.set_pool(pool(failure_mode))
            datastore.set_pods(pods(addresses))
            datastore.mark_synced()
    assert metrics.streams is not None
    limits = message_limits or MessageLimits()
    server = GrpcServer(
        address="127.0.0.1",
        port=0,
        port_flag="--grpc-port",
        stream_service=StreamService(
            service=SERVICE_NAME,
            method="Process",
            handler_factory=path.processor,
            limits=limits,
            observer=metrics.streams,
        ),
    )
    picker = Picker(datastore, metrics, path)
    picker.records = records
    port = await server.start()
    try:
        async with gateway_client(port) as client:
            picker.client = client
            yield picker
    finally:
        await server.stop(0)
        await path.tasks.aclose()
