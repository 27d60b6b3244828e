"""What strangers test their plugins with does what the picker does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic import Field

from epp.framework import (
    ConfigError,
    CounterSpec,
    DataType,
    Endpoint,
    EndpointMetrics,
    InferenceRequest,
    Parameters,
    PluginContext,
    Scope,
    Scorer,
    Usage,
)
from epp.testing import (
    FakeContext,
    built,
    endpoint_of,
    put,
    put_on,
    request_of,
    response_of,
)

WARMTH: DataType[float] = DataType(
    name="example/Warmth", scope=Scope.CANDIDATE, default_producer="thermometer"
)
AGE: DataType[float] = DataType(name="example/Age", scope=Scope.ENDPOINT, default_producer="clock")
SCORED = CounterSpec(
    name="example_scored_total", help="[ALPHA] Scored endpoints.", labels=("kind",)
)


class WarmthParameters(Parameters):
    factor: float = Field(1.0, gt=0)
    producer_name: str = ""


class WarmthScorer(Scorer):
    metrics = (SCORED,)

    def __init__(self, parameters: WarmthParameters, context: PluginContext) -> None:
        self._factor = parameters.factor
        self._warmth = context.consumes(WARMTH, producer=parameters.producer_name or None)
        self._age = context.consumes(AGE)
        self._scored = context.metrics.counter(SCORED).labels(("warm",))
        self.second = context.rng.random()
        self.now = context.now()

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        self._scored.inc(len(endpoints))
        values = self._warmth.values(request, endpoints)
        return [
            self._factor * (value or 0.0) / (self._age.on(endpoint) or 1.0)
            for endpoint, value in zip(endpoints, values, strict=True)
        ]


class Bare(Scorer):
    type = "bare"

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        return [0.0 for _ in endpoints]


def test_a_plugin_reads_what_its_default_producers_would_have_written() -> None:
    scorer = built(WarmthScorer, factor=0.5)
    warm, cold, request = endpoint_of("e1"), endpoint_of("e2"), request_of()

    put(WARMTH, request, {warm: 0.8})
    put_on(AGE, warm, 2.0)

    assert scorer.score(request, [warm, cold]) == [pytest.approx(0.2), 0.0]


def test_a_plugin_reads_from_the_producer_its_parameters_name() -> None:
    scorer = built(WarmthScorer, producer_name="mine")
    warm, request = endpoint_of(), request_of()

    put(WARMTH, request, {warm: 0.1})
    put(WARMTH, request, {warm: 0.9}, "mine")

    assert scorer.score(request, [warm]) == [0.9]


def test_the_context_remembers_what_was_declared_and_counted() -> None:
    context = FakeContext("warmth-scorer", "w1")

    scorer = built(WarmthScorer, context)
    scorer.score(request_of(), [endpoint_of()])

    assert (scorer.type, scorer.name) == ("warmth-scorer", "w1")
    assert [read.data_type for read in context.inputs] == [WARMTH, AGE]
    assert context.series("example_scored_total")["warm",].value == 1
    assert context.series("example_unheard_of_total") == {}


def test_two_contexts_give_the_same_random_numbers_and_the_same_time() -> None:
    one, other = built(WarmthScorer), built(WarmthScorer)

    assert (one.second, one.now) == (other.second, other.now)
    assert built(WarmthScorer, FakeContext(seed=2)).second != one.second
    assert built(WarmthScorer, FakeContext(now=lambda: 7.0)).now == 7.0


def test_what_is_written_is_kept_under_the_name_of_the_plugin() -> None:
    output = FakeContext("thermometer", "t2").produces(WARMTH)

    assert output.key == WARMTH.key("t2")


def test_a_plugin_is_found_by_name_and_kind() -> None:
    bare = built(Bare)
    context = FakeContext(plugins={"b": bare})

    assert context.plugin("b", Bare, field="scorer") is bare
    with pytest.raises(ConfigError, match="scorer: 'c'"):
        context.plugin("c", Bare, field="scorer")


def test_wrong_parameters_are_told() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        built(WarmthScorer, factor=0)
    with pytest.raises(TypeError, match="Bare has no parameters, got factor"):
        built(Bare, factor=1)


def test_an_endpoint_has_reported_what_it_is_made_with() -> None:
    endpoint = endpoint_of("e7", waiting=3, running=2, kv=0.5, max_active_models=4)

    assert endpoint.address == "10.0.0.7:8000"
    assert endpoint.metrics == EndpointMetrics(
        waiting_queue_size=3,
        running_requests_size=2,
        kv_cache_usage=0.5,
        max_active_models=4,
        updated_at=999.99,
    )
    assert endpoint_of(address="10.9.9.9:80").port == 80


def test_requests_and_responses_carry_headers() -> None:
    request = request_of("llama", headers={"x-session": "s"}, priority=-1, request_id="r7")
    response = response_of(503, headers={"retry-after": "1"}, usage=Usage(prompt_tokens=4))

    assert (request.target_model, request.priority, request.id) == ("llama", -1, "r7")
    assert request.headers.get("x-session") == "s"
    assert (response.status, response.started, response.ended) == (503, True, False)
    assert response.headers.get("retry-after") == "1"
    assert response.usage == Usage(prompt_tokens=4)
