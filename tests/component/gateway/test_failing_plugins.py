"""Plugins of a configuration that raise, are late or hold everything up (decisions 1 and 18)."""

from __future__ import annotations

import gzip
import threading

import pytest

from epp.app.request_path import RequestPathSettings
from epp.datastore.inference_pool import FailureMode
from epp.request_control.director_settings import DirectorSettings
from tests.fakes.clock import Clock
from tests.fakes.pickers.gateway_client import Answer
from tests.fakes.pickers.picker import Picker, running_picker
from tests.fakes.plugins.failing import (
    ONE,
    OWN,
    TWO,
    LateProducer,
    Meddling,
    Slow,
    ThreadedProducer,
)

BODY = b'{"model":"m","prompt":"a"}'
BOTH = pytest.mark.parametrize("mode", list(FailureMode))


async def answer_to(picker: Picker, headers: dict[str, str] | None = None) -> Answer:
    exchange = picker.exchange()
    await exchange.post(BODY, headers)
    answer = await exchange.answer()
    if answer.kind == "request_headers":
        assert (await exchange.answer()).body == BODY
    exchange.cancel()
    await picker.settled()
    return answer


@BOTH
@pytest.mark.parametrize(
    "broken",
    [
        "broken-producer",
        "rejecting-producer",
        pytest.param("late-producer", id="V40"),
        "broken-scorer",
    ],
)
async def test_what_only_informs_costs_its_word_alone(mode: FailureMode, broken: str) -> None:
    config = f"plugins: [{{type: {broken}}}, {{type: noting}}, {{type: note-scorer}}]"
    async with running_picker(
        (ONE, TWO), config=config, own_plugins=OWN, failure_mode=mode
    ) as picker:
        assert (await answer_to(picker)).destination == TWO
        assert picker.metric("epp_plugin_errors_total", plugin_type=broken) == 1
        assert picker.faults == 1
        assert picker.metric("epp_fail_open_total") == 0
        if broken == "late-producer":
            assert picker.plugin(broken, LateProducer).cancellations == 1


@BOTH
@pytest.mark.parametrize(
    ("broken", "point"),
    [
        ("broken-filter", "Filter"),
        ("broken-picker", "Picker"),
        ("broken-handler", "ProfilePicker"),
        ("broken-screener", "Screener"),
    ],
)
async def test_what_decides_is_answered_by_the_failure_mode(
    mode: FailureMode, broken: str, point: str
) -> None:
    config = f"plugins: [{{type: queue-scorer}}, {{type: {broken}}}]"
    async with running_picker(
        (ONE, TWO), config=config, own_plugins=OWN, failure_mode=mode
    ) as picker:
        picker.endpoint(ONE).load.acquire()
        exchange = picker.exchange()
        await exchange.post(BODY)
        answer = await exchange.answer()
        if mode is FailureMode.FAIL_CLOSE:
            assert (answer.status, answer.details) == (503, "epp_internal")
        else:
            assert answer.destination == TWO
            assert (await exchange.answer()).body == BODY
        opened = picker.metric("epp_fail_open_total", reason="internal")
        assert opened == (mode is FailureMode.FAIL_OPEN)
        errors = {"extension_point": point, "plugin_type": broken}
        assert picker.metric("epp_plugin_errors_total", **errors) == 1
        exchange.cancel()
        picker.endpoint(ONE).load.release()
        await picker.settled()


async def test_a_producer_may_run_in_a_thread() -> None:
    noting = "{type: threaded, name: noting}"
    config = f"plugins: [{noting}, {{type: note-scorer}}]"
    async with running_picker((ONE, TWO), config=config, own_plugins=OWN) as picker:
        assert (await answer_to(picker)).destination == TWO
        threads = picker.plugin("noting", ThreadedProducer).threads
        assert threading.main_thread() not in threads
        assert len(threads) == 1


@pytest.mark.parametrize("slow", ["slow-producer", "slow-thread"])
async def test_a_producer_that_holds_everything_up_is_switched_off(slow: str) -> None:
    clock = Clock()
    config = f"""
plugins: [{{type: {slow}}}, {{type: queue-scorer}}, {{type: max-score-picker}}]
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: queue-scorer}}]}}]
"""
    async with running_picker(config=config, own_plugins=OWN, now=clock) as picker:
        for _ in range(8):
            assert (await answer_to(picker)).destination == ONE
        assert picker.plugin(slow, Slow).calls == 5
        assert picker.metric("epp_plugins_switched_off_total", plugin_type=slow) == 1


async def test_a_scorer_that_holds_everything_up_is_switched_off() -> None:
    config = "plugins: [{type: slow-scorer}, {type: noting}, {type: note-scorer}]"
    profile = """
schedulingProfiles:
- name: default
  plugins: [{pluginRef: slow-scorer, weight: 9}, {pluginRef: note-scorer}]
"""
    async with running_picker(
        (ONE, TWO), config=config + profile, own_plugins=OWN, now=Clock()
    ) as picker:
        picks = [(await answer_to(picker)).destination for _ in range(7)]
        assert picks == [ONE] * 5 + [TWO] * 2
        off = picker.metric("epp_plugins_switched_off_total", plugin_type="slow-scorer")
        assert off == 1


async def test_a_best_effort_pick_forwards_a_coded_body_as_it_came() -> None:
    config = "plugins: [{type: queue-scorer}, {type: meddling}]"
    async with running_picker(
        config=config, own_plugins=OWN, failure_mode=FailureMode.FAIL_OPEN, now=Clock()
    ) as picker:
        exchange = picker.exchange()
        body = gzip.compress(BODY)
        rewritten = {"content-encoding": "gzip", "x-llm-d-model-name-rewrite": "other"}
        await exchange.post(body, rewritten)
        head, returned = await exchange.answers(2)
        assert head.destination == ONE
        assert "content-encoding" not in head.remove_headers
        assert returned.body == body
        exchange.cancel()
        await picker.settled()


async def test_a_best_effort_pick_carries_nothing_of_the_decision_that_failed() -> None:
    config = "plugins: [{type: queue-scorer}, {type: meddling}]"
    settings = RequestPathSettings(director=DirectorSettings(emit_endpoint_scores=True))
    async with running_picker(
        config=config,
        own_plugins=OWN,
        failure_mode=FailureMode.FAIL_OPEN,
        settings=settings,
        now=Clock(),
    ) as picker:
        sent = {"x-prefiller-host-port": "6.6.6.6:1", "x-secret": "s", "x-request-id": ""}
        answer = await answer_to(picker, sent)
        assert picker.metric("epp_fail_open_total", reason="deadline") == 1
        assert answer.set_headers.keys() == {"x-gateway-destination-endpoint", "x-request-id"}
        assert answer.remove_headers == {"x-prefiller-host-port", "x-secret"}
        assert answer.metadata == {"envoy.lb": {"x-gateway-destination-endpoint": ONE}}
        meddling = picker.plugin("meddling", Meddling)
        assert meddling.traces == [1, None]
        assert len(set(map(id, meddling.ended_requests))) == 2
        assert {request.id for request in meddling.ended_requests} == {
            answer.set_headers["x-request-id"].decode()
        }
