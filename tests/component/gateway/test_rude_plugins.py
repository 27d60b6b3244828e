"""What plugins hand over, raise and do to tasks harms one answer of theirs, never a request."""

from __future__ import annotations

import pytest

from epp.datastore.inference_pool import FailureMode
from tests.fakes.eventually import eventually
from tests.fakes.pickers.gateway_client import Answer
from tests.fakes.pickers.picker import Picker, running_picker
from tests.fakes.plugins.failing import ONE, TWO
from tests.fakes.plugins.rude import StubbornProducer, every_rude_plugin

BODY = b'{"model":"m","prompt":"a"}'
OWN = tuple(every_rude_plugin())


async def answer_to(picker: Picker) -> Answer:
    exchange = picker.exchange()
    await exchange.post(BODY)
    answer = await exchange.answer()
    if answer.kind == "request_headers":
        assert (await exchange.answer()).body == BODY
        await exchange.response_headers({":status": "200", "content-type": "application/json"})
        assert (await exchange.answer()).kind == "response_headers"
        await exchange.response_body(b"{}", end=True)
        assert (await exchange.answer()).body == b"{}"
    exchange.cancel()
    await picker.settled()
    return answer


@pytest.mark.parametrize(
    "rude",
    [
        "endless-scorer",
        "cancelling-scorer",
        "exiting-scorer",
        "exiting-producer",
        "cancelling-producer",
        "self-cancelling-producer",
        "secretly-waiting-producer",
        "cancelling-response-header",
    ],
)
async def test_what_only_informs_costs_its_word_alone(rude: str) -> None:
    config = f"plugins: [{{type: {rude}}}, {{type: decimal-scorer}}]"
    async with running_picker((ONE, TWO), config=config, own_plugins=OWN) as picker:
        assert (await answer_to(picker)).destination == TWO
        assert picker.metric("epp_plugin_errors_total", plugin_type=rude) == 1


@pytest.mark.parametrize("rude", ["lazy-filter", "lazy-handler"])
async def test_generators_are_read_as_what_they_give(rude: str) -> None:
    config = f"plugins: [{{type: {rude}}}, {{type: decimal-scorer}}]"
    async with running_picker((ONE, TWO), config=config, own_plugins=OWN) as picker:
        assert (await answer_to(picker)).destination == TWO
        assert picker.faults == 0


@pytest.mark.parametrize("mode", list(FailureMode))
@pytest.mark.parametrize("rude", ["endless-filter", "cancelling-filter"])
async def test_what_decides_is_answered_by_the_failure_mode(mode: FailureMode, rude: str) -> None:
    config = f"plugins: [{{type: queue-scorer}}, {{type: {rude}}}]"
    async with running_picker(config=config, own_plugins=OWN, failure_mode=mode) as picker:
        answer = await answer_to(picker)
        assert answer.destination == (ONE if mode is FailureMode.FAIL_OPEN else None)
        assert answer.status == (None if mode is FailureMode.FAIL_OPEN else 503)
        assert picker.metric("epp_plugin_errors_total", plugin_type=rude) == 1


async def test_a_producer_that_shrugs_off_its_cancellation_is_left_behind_then_switched_off() -> (
    None
):
    config = "plugins: [{type: stubborn-producer}, {type: queue-scorer}]"
    async with running_picker(config=config, own_plugins=OWN) as picker:
        for _ in range(7):
            assert (await answer_to(picker)).destination == ONE
        producer = picker.plugin("stubborn-producer", StubbornProducer)
        assert producer.calls == 5
        off = picker.metric("epp_plugins_switched_off_total", plugin_type="stubborn-producer")
        assert off == 1
        producer.released.set()


@pytest.mark.parametrize("others", ["", "{type: patient-producer}, "], ids=["at once", "later"])
async def test_a_decision_that_can_not_be_told_ends_its_stream_and_counts_nothing(
    others: str,
) -> None:
    """Pitfall 6: nobody is left waiting for an answer."""
    config = f"plugins: [{others}{{type: smuggling-pre-request}}, {{type: queue-scorer}}]"
    async with running_picker(config=config, own_plugins=OWN) as picker:
        exchange = picker.exchange()
        await exchange.post(BODY)
        assert (await exchange.status()).name in ("INTERNAL", "UNAVAILABLE")
        assert picker.in_flight == {ONE: 0}
        assert picker.metric("epp_requests_in_flight") == 0
        await picker.settled()


async def test_a_hook_that_waits_for_ever_does_not_keep_its_requests() -> None:
    config = "plugins: [{type: waiting-response-body}, {type: queue-scorer}]"
    async with running_picker(config=config, own_plugins=OWN) as picker:
        assert (await answer_to(picker)).destination == ONE
        await eventually(lambda: not len(picker.path.tasks))
        assert picker.metric("epp_response_phase_errors_total") > 0
