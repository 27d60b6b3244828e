"""An Endpoint Picker in this process, behind a real gRPC port, with a pool a test can change."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from epp.app.request_path import RequestPath, RequestPathSettings, build_request_path
from epp.config.assembly import Assembly, assemble
from epp.config.loader import load_config
from epp.config.plugin_registry import PluginRegistry
from epp.datastore.datastore import Datastore
from epp.datastore.inference_pool import FailureMode, InferencePool
from epp.datastore.pods import Pod
from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.framework.plugin import Plugin
from epp.observability.metrics import Metrics
from epp.request_control.tracing import RequestTracer
from epp.transport.streams import MessageLimits
from tests.fakes.eventually import eventually
from tests.fakes.pickers.chosen_transport import ext_proc_server
from tests.fakes.pickers.gateway_client import Exchange, GatewayClient, gateway_client
from tests.fakes.pickers.simple_plan import simple_plan

Kind = TypeVar("Kind", bound=Plugin)


class Records:
    """A request log that keeps what it is given."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def write(self, record: Any) -> None:
        self.all.append(record)


class Picker:
    """What a test holds of a running Endpoint Picker."""

    def __init__(
        self, datastore: Datastore, metrics: Metrics, path: RequestPath, configured: Configured
    ) -> None:
        self.datastore = datastore
        self.metrics = metrics
        self.path = path
        self._configured = configured
        self.records = Records()
        self.client: GatewayClient

    def exchange(self, **modes: Any) -> Exchange:
        return self.client.exchange(**modes)

    def endpoint(self, address: str) -> Endpoint:
        return self.datastore.snapshot().by_address[address]

    def plugin(self, name: str, kind: type[Kind]) -> Kind:
        """A plugin of the configuration in force."""
        assert self._configured.assembly is not None
        found = self._configured.assembly.plugins[name]
        assert isinstance(found, kind)
        return found

    def reconfigure(self, config: str) -> None:
        """Go over to another configuration as the process does."""
        self.path.director.use(self._configured.assemble(config).plan)

    def report(self, address: str, *, waiting: int = 0, kv: float = 0.0) -> None:
        """Let the model server at `address` have said this of itself."""
        self.endpoint(address).state.metrics = EndpointMetrics(
            waiting_queue_size=waiting, kv_cache_usage=kv, updated_at=time.monotonic()
        )

    @property
    def in_flight(self) -> dict[str, int]:
        return {
            endpoint.address: endpoint.load.in_flight
            for endpoint in self.datastore.snapshot().endpoints
        }

    def metric(self, name: str, **labels: str) -> float:
        """Value of a series on the metrics page; 0 when it is not there."""
        return next(
            (each.value for each in self._samples(name) if labels.items() <= each.labels.items()),
            0.0,
        )

    @property
    def faults(self) -> float:
        """How often plugins or response phases have failed."""
        names = ("epp_plugin_errors_total", "epp_response_phase_errors_total")
        return sum(each.value for name in names for each in self._samples(name))

    def _samples(self, name: str) -> Iterator[Sample]:
        page = b"".join(self.metrics.exposition()[0]).decode()
        for family in text_string_to_metric_families(page):
            yield from (sample for sample in family.samples if sample.name == name)

    async def settled(self) -> None:
        """Wait until no stream is open and nothing is in flight."""
        await eventually(lambda: not self.path.guard.streams and not any(self.in_flight.values()))
        assert self.path.guard.buffered_bytes == 0


class Configured:
    """Builds plugins from configuration texts, one after another, as the process does."""

    def __init__(
        self, own: Sequence[type[Plugin]], metrics: Metrics, now: Callable[[], float]
    ) -> None:
        self._registry = PluginRegistry.installed({kind.type: kind for kind in own})
        self._metrics = metrics
        self._now = now
        self.assembly: Assembly | None = None

    def assemble(self, text: str) -> Assembly:
        self.assembly = assemble(
            load_config(text),
            self._registry,
            metrics=self._metrics,
            rng=random.Random(1),
            allow_experimental=True,
            now=self._now,
            previous=self.assembly,
        )
        return self.assembly


def pods(
    addresses: Sequence[str], labels: Mapping[str, Mapping[str, str]] | None = None
) -> list[Pod]:
    """One ready pod per `ip:port`; an address without a port serves on those of the pool."""
    made = []
    for index, address in enumerate(addresses):
        ip, _, port = address.rpartition(":") if ":" in address else (address, "", "")
        made.append(
            Pod(
                uid=f"uid-{index}",
                name=f"pod-{index}",
                namespace="default",
                ips=(ip.strip("[]"),),
                labels=(labels or {}).get(address, {}),
                ready=True,
                fixed_port=int(port) if port else None,
            )
        )
    return made


def pool(
    failure_mode: FailureMode | None = FailureMode.FAIL_CLOSE,
    target_ports: tuple[int, ...] = (8000,),
) -> InferencePool:
    return InferencePool(
        name="pool", namespace="default", target_ports=target_ports, failure_mode=failure_mode
    )


@asynccontextmanager
async def running_picker(
    addresses: Sequence[str] = ("10.0.0.1:8000",),
    *,
    config: str | None = None,
    own_plugins: Sequence[type[Plugin]] = (),
    labels: Mapping[str, Mapping[str, str]] | None = None,
    target_ports: tuple[int, ...] = (8000,),
    failure_mode: FailureMode | None = FailureMode.FAIL_CLOSE,
    settings: RequestPathSettings | None = None,
    synced: bool = True,
    seed: int = 1,
    message_limits: MessageLimits | None = None,
    now: Callable[[], float] = time.monotonic,
    tracer: RequestTracer | None = None,
    **parts: Any,
) -> AsyncIterator[Picker]:
    """Serve the given endpoints until the block is left; then nothing may be left over.

    With a `config` it picks by that; types of `own_plugins` may be named in it, too. Without, by
    the simplest plan, made of `parts`.
    """
    datastore = Datastore()
    metrics = Metrics(stream_metrics=True)
    records = Records()
    rng = random.Random(seed)
    configured = Configured(own_plugins, metrics, now)
    if config is not None:
        plan = configured.assemble(config).plan
    else:
        plan = simple_plan(metrics, rng, now=now, **parts)
    path = build_request_path(
        datastore,
        metrics,
        settings or RequestPathSettings(),
        plan=plan,
        rng=rng,
        request_log=records,  # type: ignore[arg-type]  # keeps records instead of writing them
        now=now,
        tracer=tracer,
    )
    if synced:
        with datastore.batch():
            datastore.set_pool(pool(failure_mode, target_ports))
            datastore.set_pods(pods(addresses, labels))
            datastore.mark_synced()
    assert metrics.streams is not None
    limits = message_limits or MessageLimits()
    server = ext_proc_server(path.processor, limits, metrics.streams)
    picker = Picker(datastore, metrics, path, configured)
    picker.records = records
    port = await server.start()
    try:
        async with gateway_client(port) as client:
            picker.client = client
            yield picker
    finally:
        await server.stop(0)
        await path.tasks.aclose()
