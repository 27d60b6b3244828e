"""A context to build one plugin in, and endpoints and requests to show to it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from epp.framework.data import DataType, Input, Output
from epp.framework.endpoint import Endpoint, EndpointId, EndpointMetrics, EndpointState
from epp.framework.errors import ConfigError
from epp.framework.headers import Headers
from epp.framework.plugin import Plugin, construct, parameters_of
from epp.framework.request import InferenceRequest
from epp.framework.request_handling import ParsedRequest
from epp.observability.instruments import FamilySet
from epp.observability.metric_catalogue import GAUGE_UNDERFLOWS
from epp.observability.plugin_metrics import PluginMetrics

T = TypeVar("T")
P = TypeVar("P")


class FakeContext:
    """Binds every input at once: to the producer that is named, else to the default one."""

    def __init__(
        self,
        plugin_type: str = "a-plugin",
        name: str = "",
        *,
        now: Callable[[], float] = lambda: 1000.0,
        seed: int = 1,
        plugins: Mapping[str, object] | None = None,
    ) -> None:
        self.plugin_type = plugin_type
        self.name = name or plugin_type
        self.now = now
        self.rng = random.Random(seed)
        self.metrics = PluginMetrics(FamilySet(GAUGE_UNDERFLOWS), lambda model: model)
        self.inputs: list[Input[Any]] = []
        self.outputs: list[Output[Any]] = []
        self._plugins = plugins or {}

    def consumes(
        self, data_type: DataType[T], *, producer: str | None = None, required: bool = True
    ) -> Input[T]:
        made = Input(data_type, producer=producer, required=required)
        made.bind(producer or data_type.default_producer)
        self.inputs.append(made)
        return made

    def produces(self, data_type: DataType[T]) -> Output[T]:
        made = Output(data_type, self.name)
        self.outputs.append(made)
        return made

    def plugin(self, name: str, kind: type[P], *, field: str) -> P:
        found = self._plugins.get(name)
        if not isinstance(found, kind):
            raise ConfigError(f"{field}: {name!r}")
        return found

    def series(self, name: str) -> dict[tuple[str, ...], Any]:
        """The series of one family of the plugin's metrics, by label values."""
        for family in self.metrics.families(deprecated_twins=True):
            if family.spec.name == name:
                return dict(family.items())
        return {}


Kind = TypeVar("Kind", bound=Plugin)


def built(
    kind: type[Kind],
    context: FakeContext | None = None,
    /,
    **parameters: Any,
) -> Kind:
    """An instance of `kind`; parameters by their Python names."""
    schema = parameters_of(kind)
    made = construct(
        kind,
        schema(**parameters) if schema is not None else None,
        context or FakeContext(kind.type),
    )
    assert isinstance(made, kind)
    return made


def endpoint_of(
    name: str = "e1",
    *,
    address: str = "",
    labels: Mapping[str, str] | None = None,
    waiting: int = 0,
    running: int = 0,
    kv: float = 0.0,
    updated_at: float | None = 999.99,
    **metrics: Any,
) -> Endpoint:
    """An endpoint that has reported these metrics; `e7` is 10.0.0.7:8000 unless told otherwise."""
    digits = "".join(filter(str.isdigit, name)) or "1"
    ip, _, port = (address or f"10.0.0.{digits}:8000").rpartition(":")
    state = EndpointState()
    state.metrics = EndpointMetrics(
        waiting_queue_size=waiting,
        running_requests_size=running,
        kv_cache_usage=kv,
        updated_at=updated_at,
        **metrics,
    )
    return Endpoint(
        id=EndpointId(f"uid-{name}", int(port)),
        address=f"{ip}:{port}",
        ip=ip,
        port=int(port),
        name=f"{name}-rank-0",
        namespace="default",
        pod_name=name,
        rank=0,
        labels=labels or {},
        state=state,
    )


def request_of(
    model: str = "m",
    *,
    headers: Mapping[str, str] | None = None,
    parsed: ParsedRequest | None = None,
    priority: int = 0,
    request_id: str = "r1",
) -> InferenceRequest:
    """A request for `model`, parsed but empty unless told otherwise."""
    return InferenceRequest(
        id=request_id,
        path="/v1/completions",
        headers=Headers((name, value.encode()) for name, value in (headers or {}).items()),
        parsed=parsed or ParsedRequest(api="completions", model=model, has_model=True),
        incoming_model=model,
        target_model=model,
        priority=priority,
    )


def put(
    data_type: DataType[T],
    request: InferenceRequest,
    values: Mapping[Endpoint, T],
    producer: str = "",
) -> None:
    """Write values of candidates as the (default) producer would."""
    Output(data_type, producer or data_type.default_producer).put_all(request, values)
