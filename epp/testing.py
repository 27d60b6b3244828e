"""What the tests of a plugin are made of: a context to build it in, endpoints, requests, responses.

    def test_a_long_queue_scores_low() -> None:
        scorer = built(LeastWaitingScorer, max_waiting=10)

        assert scorer.score(request_of(), [endpoint_of(waiting=9)]) == [pytest.approx(0.1)]

Nothing here waits, listens or needs a test framework. Nothing of the picker itself imports it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from epp.framework.data import DataType, Input, Output
from epp.framework.endpoint import Endpoint, EndpointId, EndpointMetrics, EndpointState
from epp.framework.errors import ConfigError
from epp.framework.headers import Headers
from epp.framework.parsed_request import ParsedRequest
from epp.framework.plugin import Plugin, construct, parameters_of
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.usage import Usage
from epp.observability.instruments import FamilySet
from epp.observability.metric_catalogue import GAUGE_UNDERFLOWS
from epp.observability.plugin_metrics import PluginMetrics

__all__ = [
    "FakeContext",
    "built",
    "endpoint_of",
    "put",
    "put_on",
    "request_of",
    "response_of",
]

T = TypeVar("T")
P = TypeVar("P")
Kind = TypeVar("Kind", bound=Plugin)


class FakeContext:
    """A `PluginContext` for one plugin, which remembers what the plugin declared.

    Binds every input at once: to the producer that is named, else to the default one.
    """

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
        """What it reads."""
        self.outputs: list[Output[Any]] = []
        """What it writes."""
        self._plugins = plugins or {}

    def consumes(
        self, data_type: DataType[T], *, producer: str | None = None, required: bool = True
    ) -> Input[T]:
        """Read access to what `producer`, else the default producer, writes."""
        made = Input(data_type, producer=producer, required=required)
        made.bind(producer or data_type.default_producer)
        self.inputs.append(made)
        return made

    def produces(self, data_type: DataType[T]) -> Output[T]:
        """Write access under the plugin's own name."""
        made = Output(data_type, self.name)
        self.outputs.append(made)
        return made

    def plugin(self, name: str, kind: type[P], *, field: str) -> P:
        """One of the `plugins` the context was made with."""
        found = self._plugins.get(name)
        if not isinstance(found, kind):
            raise ConfigError(f"{field}: {name!r}")
        return found

    def series(self, name: str) -> dict[tuple[str, ...], Any]:
        """The series of one metric of the plugin, by label values."""
        for family in self.metrics.families(deprecated_twins=True):
            if family.spec.name == name:
                return dict(family.items())
        return {}


def built(
    kind: type[Kind],
    context: FakeContext | None = None,
    /,
    **parameters: Any,
) -> Kind:
    """An instance of `kind`; parameters by their Python names.

    Raises `pydantic.ValidationError`, a `ValueError`, when they are not what it allows.
    """
    schema = parameters_of(kind)
    if schema is None and parameters:
        raise TypeError(f"{kind.__name__} has no parameters, got {', '.join(parameters)}")
    made = construct(
        kind,
        schema(**parameters) if schema is not None else None,
        context or FakeContext(kind.type or kind.__name__),
    )
    if not isinstance(made, kind):
        raise TypeError(f"{kind.__name__} made a {type(made).__name__}")
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
    """An endpoint that has reported these metrics; `e7` is 10.0.0.7:8000 unless told otherwise.

    `metrics` are other fields of `EndpointMetrics`.
    """
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
        headers=_headers(headers),
        parsed=parsed or ParsedRequest(api="completions", model=model),
        incoming_model=model,
        target_model=model,
        priority=priority,
    )


def response_of(
    status: int = 200,
    *,
    headers: Mapping[str, str] | None = None,
    streaming: bool = False,
    usage: Usage | None = None,
) -> InferenceResponse:
    """A response whose headers have come."""
    return InferenceResponse(
        headers=_headers(headers), status=status, streaming=streaming, started=True, usage=usage
    )


def put(
    data_type: DataType[T],
    request: InferenceRequest,
    values: Mapping[Endpoint, T],
    producer: str = "",
) -> None:
    """Write values of a request's candidates as the (default) producer would."""
    Output(data_type, producer or data_type.default_producer).put_all(request, values)


def put_on(data_type: DataType[T], endpoint: Endpoint, value: T, producer: str = "") -> None:
    """Write the lasting value of an endpoint as the (default) producer would."""
    Output(data_type, producer or data_type.default_producer).put_on(endpoint, value)


def _headers(values: Mapping[str, str] | None) -> Headers:
    return Headers((name, value.encode()) for name, value in (values or {}).items())
