"""Requests that a configuration decides: what is picked, and what is turned away and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from epp.config.built_in import BUILT_IN
from epp.framework.endpoint import Endpoint
from epp.framework.errors import ErrorCode, Rejection
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.request_control import Admitter, PreRequest, ResponseBody, ResponseProgress
from epp.framework.scheduling_results import SchedulingResult
from tests.fakes.eventually import eventually
from tests.fakes.pickers.gateway_client import Answer
from tests.fakes.pickers.picker import Picker, running_picker

BODY = b'{"model":"m","prompt":"a"}'
ONE, TWO, THREE = "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"
LOADS = {ONE: (4, 0.3), TWO: (0, 0.1), THREE: (9, 0.3)}
"""Waiting requests and KV-cache usage."""
OBJECTIVE = "x-llm-d-inference-objective"
OLD_OBJECTIVE = "x-gateway-inference-objective"

TWO_AT_ONCE = """
plugins:
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}
"""
BOUNDED = """
plugins:
- {type: queue-scorer}
- type: utilization-filter
  parameters: {conditions: [{metric: waiting-queue, maxValue: 3}]}
"""
BY_PREFIX = "plugins: [{type: prefix-cache-scorer}]"


def reported(picker: Picker, loads: Mapping[str, tuple[int, float]]) -> None:
    for address, (waiting, kv) in loads.items():
        picker.report(address, waiting=waiting, kv=kv)


@pytest.mark.parametrize(
    ("config", "loads", "subset", "destination"),
    [
        pytest.param(BUILT_IN, LOADS, None, TWO, id="V1"),
        pytest.param(BUILT_IN, {**LOADS, ONE: (0, 0.0)}, [THREE], THREE, id="V17"),
        pytest.param(TWO_AT_ONCE, LOADS, None, f"{TWO},{ONE}", id="V21"),
        pytest.param(BOUNDED, LOADS, None, TWO, id="a filter"),
    ],
)
async def test_load_and_subset_decide_where_a_request_goes(
    config: str,
    loads: Mapping[str, tuple[int, float]],
    subset: list[str] | None,
    destination: str,
) -> None:
    hint = {"envoy.lb.subset_hint": {"x-gateway-destination-endpoint-subset": subset}}
    async with running_picker(tuple(LOADS), config=config) as picker:
        reported(picker, loads)
        exchange = picker.exchange()
        await exchange.post(BODY, metadata=hint if subset else None)
        head, body = await exchange.answers(2)
        assert head == Answer(
            kind="request_headers",
            set_headers={"x-gateway-destination-endpoint": destination.encode()},
            clear_route_cache=True,
            metadata={"envoy.lb": {"x-gateway-destination-endpoint": destination}},
        )
        assert body == Answer(kind="request_body", body=BODY, end=True, streamed=True)
        await exchange.silent()
        exchange.cancel()
        await picker.settled()
        assert picker.faults == 0


@pytest.mark.parametrize(
    ("headers", "priority"),
    [
        pytest.param({OLD_OBJECTIVE: "gold"}, 5, id="V6"),
        pytest.param({OLD_OBJECTIVE: "tin", OBJECTIVE: "gold"}, 5, id="V7"),
        pytest.param({OLD_OBJECTIVE: "gold", OBJECTIVE: ""}, 0, id="an empty name"),
        pytest.param({OBJECTIVE: "brass"}, 0, id="an unknown name"),
    ],
)
async def test_the_objective_gives_the_priority_and_is_not_passed_on(
    headers: dict[str, str], priority: int
) -> None:
    async with running_picker(tuple(LOADS), config=BUILT_IN) as picker:
        picker.datastore.priorities = {"gold": 5, "tin": 1}
        exchange = picker.exchange()
        await exchange.post(BODY, headers)
        head = await exchange.answer()
        assert head.destination in LOADS
        assert head.remove_headers == set(headers)
        assert picker.metric("llm_d_epp_request_total", priority=str(priority)) == 1
        exchange.cancel()
        await picker.settled()
        assert [record.priority for record in picker.records.all] == [priority]


class Busy(Admitter):
    type = "busy"

    def admit(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        raise Rejection(ErrorCode.RESOURCE_EXHAUSTED, "busy")


class Unwilling(Admitter):
    type = "unwilling"

    def admit(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        raise ValueError("no")


class Completions(ResponseProgress, ResponseBody):
    """Counts how requests ended."""

    type = "completions"

    def __init__(self) -> None:
        self.ended_with: list[Any] = []
        self.shown: list[Any] = []

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.ended_with.append(response.termination_cause)

    def response_body(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        self.shown += [response.termination_cause] * response.ended


class Failing(PreRequest):
    """Needs something that is not there."""

    type = "failing"

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        raise Rejection(ErrorCode.PRECONDITION_FAILED, "no")


class Broken(PreRequest):
    """Has a bug."""

    type = "broken"

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        raise ValueError("bug")


OWN = (Busy, Unwilling, Completions, Failing, Broken)
FULL = dict.fromkeys(LOADS, (5, 0.0))
PLAIN = "plugins: [{type: queue-scorer}"
SATURATED = {"x-llm-d-request-dropped-reason": b"rejected-saturated", "retry-after": b"1"}


@dataclass(frozen=True, kw_only=True)
class Turned:
    """A request that is turned away, and the answer to it."""

    config: str
    status: int
    error: str
    loads: Mapping[str, tuple[int, float]] = field(default_factory=lambda: LOADS)
    headers: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, bytes] = field(default_factory=dict)
    picked: bool = False
    """Whether an endpoint had been picked."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            Turned(
                config=BY_PREFIX,
                headers={"prefer": "respond-async, If-Available;q=1"},
                status=412,
                error="PreconditionFailed - no decode worker has the requested KV cache",
            ),
            id="V35",
        ),
        pytest.param(
            Turned(
                config=BOUNDED,
                loads=FULL,
                status=429,
                error="ResourceExhausted - no endpoints available for the given request",
                told=SATURATED,
            ),
            id="V36",
        ),
        pytest.param(
            Turned(
                config=BUILT_IN,
                loads=FULL,
                headers={OBJECTIVE: "batch"},
                status=429,
                error="ResourceExhausted - system saturated, sheddable request dropped",
                told=SATURATED,
            ),
            id="V37",
        ),
        pytest.param(
            Turned(
                config=PLAIN + ", {type: failing}, {type: completions}]",
                status=412,
                error="PreconditionFailed - no",
                picked=True,
            ),
            id="V38 one",
        ),
        pytest.param(
            Turned(
                config=PLAIN
                + ", {type: failing, name: f}, {type: broken, name: b}, {type: completions}]",
                status=500,
                error='Internal - PreRequest "f/failing" failed: no;'
                ' PreRequest "b/broken" failed: bug',
                picked=True,
            ),
            id="V38 two",
        ),
        pytest.param(
            Turned(
                config=PLAIN + ", {type: busy}]",
                status=429,
                error="ResourceExhausted - request cannot be admitted: busy",
                told=SATURATED,
            ),
            id="V41",
        ),
        pytest.param(
            Turned(
                config=PLAIN + ", {type: unwilling}]",
                status=500,
                error="Internal - request cannot be admitted: no",
            ),
            id="V42",
        ),
    ],
)
async def test_what_a_configuration_turns_away_gets_an_answer_of_ours(case: Turned) -> None:
    async with running_picker(tuple(LOADS), config=case.config, own_plugins=OWN) as picker:
        picker.datastore.priorities = {"batch": -1}
        reported(picker, case.loads)
        exchange = picker.exchange()
        await exchange.post(BODY, case.headers)
        answer = await exchange.answer()
        assert (answer.kind, answer.status) == ("immediate_response", case.status)
        assert answer.body == f"inference error: {case.error}".encode()
        assert answer.set_headers == case.told
        assert (await exchange.status()).name == "OK"
        await picker.settled()
        if case.picked:
            completions = picker.plugin("completions", Completions)
            assert completions.ended_with == ["error"]
            await eventually(lambda: completions.shown == ["error"])
        assert picker.metric("epp_request_terminations_total", cause="error") == case.picked


@pytest.mark.parametrize(
    ("priority", "loads"),
    [
        pytest.param(0, FULL, id="V37 priority 0"),
        pytest.param(-1, {**FULL, TWO: (0, 0.1)}, id="V37 room left"),
    ],
)
async def test_requests_are_routed_unless_sheddable_and_without_room(
    priority: int, loads: Mapping[str, tuple[int, float]]
) -> None:
    async with running_picker(tuple(LOADS), config=BUILT_IN) as picker:
        picker.datastore.priorities = {"batch": priority}
        reported(picker, loads)
        exchange = picker.exchange()
        await exchange.post(BODY, {OBJECTIVE: "batch"})
        assert await exchange.picked() in LOADS
        exchange.cancel()
        await picker.settled()


async def test_a_prompt_that_is_cached_is_available() -> None:
    body = b'{"model":"m","prompt":"%s"}' % (b"once upon a time " * 100)
    async with running_picker(tuple(LOADS), config=BY_PREFIX) as picker:
        first = picker.exchange()
        await first.post(body)
        destination = await first.picked()
        again = picker.exchange()
        await again.post(body, {"prefer": "if-available"})
        assert await again.picked() == destination
        first.cancel()
        again.cancel()
        await picker.settled()
