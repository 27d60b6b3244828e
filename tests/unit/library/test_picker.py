"""Picks without a gateway: endpoints by hand, what is known of them, and what is refused."""

from __future__ import annotations

import json

import pytest

from epp.framework import (
    ConfigError,
    EndpointMetrics,
    ErrorCode,
    ExtractionError,
    Plugin,
    Rejection,
)
from epp.library import Picker
from tests.fakes.plugins.library import (
    PLUGINS,
    Doorkeeper,
    ThreadedProducer,
    WaitingHook,
    WaitingProducer,
)

QUEUE = "plugins: [{type: queue-scorer}]"
PAGE = b"""
vllm:num_requests_waiting 7
vllm:num_requests_running 1
vllm:kv_cache_usage_perc 0.25
"""


def picker_of(*addresses: str, text: str = QUEUE, now: float = 100.0) -> Picker:
    picker = Picker.from_config(text, seed=1, now=lambda: now)
    for address in addresses:
        picker.add(address)
    return picker


def test_what_is_observed_decides() -> None:
    picker = picker_of("10.0.0.1:8000", "10.0.0.2:8000")

    picker.observe("10.0.0.1:8000", EndpointMetrics(waiting_queue_size=8))
    picker.observe("10.0.0.2:8000", PAGE)

    assert picker.pick(model="m", prompt="Hello").address == "10.0.0.2:8000"


def test_a_metrics_page_is_read_as_a_scraper_would() -> None:
    picker = picker_of("10.0.0.1:8000")

    picker.observe("10.0.0.1:8000", PAGE)

    (endpoint,) = picker.endpoints
    assert endpoint.metrics == EndpointMetrics(
        waiting_queue_size=7, running_requests_size=1, kv_cache_usage=0.25, updated_at=100.0
    )


def test_a_page_that_lacks_something_is_told_and_the_rest_is_kept() -> None:
    picker = picker_of("10.0.0.1:8000")

    with pytest.raises(ExtractionError, match="kv_cache_usage_perc: missing"):
        picker.observe("10.0.0.1:8000", PAGE.replace(b"vllm:kv_cache_usage_perc 0.25\n", b""))

    assert picker.endpoints[0].metrics.waiting_queue_size == 7


def test_metrics_pages_need_an_extractor() -> None:
    picker = picker_of(
        "a", text="plugins: [{type: random-picker}]\ndataLayer: {injectDefaults: false}"
    )

    with pytest.raises(ConfigError, match="no extractor of metrics pages"):
        picker.observe("a", PAGE)


def test_numbers_carry_the_time_they_were_observed_unless_they_have_one() -> None:
    picker = picker_of("a", now=5.0)

    picker.observe("a", EndpointMetrics(waiting_queue_size=1))
    assert picker.endpoints[0].metrics.updated_at == 5.0

    picker.observe("a", EndpointMetrics(waiting_queue_size=1, updated_at=4.0))
    assert picker.endpoints[0].metrics.updated_at == 4.0


@pytest.mark.parametrize(
    ("address", "ip", "port"),
    [
        ("10.0.0.1:8000", "10.0.0.1", 8000),
        ("[fd00::1]:8000", "fd00::1", 8000),
        ("replica-7", "replica-7", 0),
        ("group:replica-7", "group:replica-7", 0),
        ("fd00::", "fd00::", 0),
    ],
)
def test_an_endpoint_has_any_name(address: str, ip: str, port: int) -> None:
    picker = picker_of()

    endpoint = picker.add(address, labels={"zone": "a"})

    assert (endpoint.address, endpoint.ip, endpoint.port) == (address, ip, port)
    assert endpoint.labels == {"zone": "a"}
    assert picker.pick(model="m", prompt="a", among=[address]).endpoint is endpoint


def test_an_endpoint_that_is_added_again_keeps_what_is_known_of_it() -> None:
    picker = picker_of("a")
    picker.observe("a", EndpointMetrics(waiting_queue_size=3))
    pick = picker.pick(model="m", prompt="Hello")

    again = picker.add("a", labels={"zone": "b"})

    assert picker.endpoints == (again,)
    assert (again.metrics.waiting_queue_size, again.load.in_flight) == (3, 1)
    pick.done()
    assert again.load.in_flight == 0


def test_an_endpoint_that_is_removed_is_not_picked_and_its_requests_end_all_the_same() -> None:
    picker = picker_of("a", "b")
    pick = picker.pick(model="m", prompt="Hello", among=["a"])

    picker.remove("a")
    pick.done()

    assert {picker.pick(model="m", prompt="Hello").address for _ in range(4)} == {"b"}
    assert pick.endpoint.load.in_flight == 0


def test_an_unknown_endpoint_is_named() -> None:
    picker = picker_of("a")

    for act in (picker.remove, lambda address: picker.observe(address, EndpointMetrics())):
        with pytest.raises(LookupError, match="there is no endpoint 'b'"):
            act("b")


def test_only_those_that_are_named_are_picked() -> None:
    picker = picker_of("a", "b", "c")
    picker.observe("a", EndpointMetrics(waiting_queue_size=9))

    assert picker.pick(model="m", prompt="Hello", among=["a", "nobody"]).address == "a"
    with pytest.raises(Rejection) as caught:
        picker.pick(model="m", prompt="Hello", among=["nobody"])
    assert caught.value.http_status == 503


def test_without_endpoints_there_is_no_pick() -> None:
    with pytest.raises(Rejection, match="failed to find endpoint candidates"):
        picker_of().pick(model="m", prompt="Hello")


def test_a_request_without_a_model_is_a_bad_one() -> None:
    with pytest.raises(Rejection) as caught:
        picker_of("a").pick(prompt="Hello")

    assert caught.value.code is ErrorCode.BAD_REQUEST


def test_the_default_configuration_learns_where_a_prompt_is_cached() -> None:
    picker = picker_of("a", "b", "c", text="")
    prompt = list(range(4096))

    with picker.pick(model="m", prompt=prompt) as first:
        pass

    again = {picker.pick(model="m", prompt=prompt).address for _ in range(3)}
    assert again == {first.address}


def test_any_api_a_parser_knows_can_be_picked_for() -> None:
    picker = picker_of("a", "b", text="")
    body = {"model": "m", "messages": [{"role": "user", "content": "word " * 500}]}

    with picker.pick(body=body, path="/v1/chat/completions") as first:
        pass

    again = picker.pick(body=json.loads(json.dumps(body)), path="/v1/chat/completions")
    assert again.address == first.address


def test_headers_decide_as_they_would_behind_a_gateway() -> None:
    text = "plugins: [{type: header-based-testing-filter}, {type: queue-scorer}]"
    picker = picker_of("10.0.0.1:8000", "10.0.0.2:8000", text=text)
    headers = {"Test-EPP-Endpoint-Selection": "10.0.0.2"}

    picks = [picker.pick(model="m", prompt="a", headers=headers).address for _ in range(4)]

    assert set(picks) == {"10.0.0.2:8000"}


def test_a_seed_makes_picks_repeatable() -> None:
    text = "plugins: [{type: random-picker}]"
    addresses = [str(number) for number in range(10)]
    one, other = (picker_of(*addresses, text=text) for _ in range(2))

    picks = [[p.pick(model="m", prompt="a").address for _ in range(20)] for p in (one, other)]

    assert picks[0] == picks[1]
    assert len(set(picks[0])) > 1


def test_every_mistake_of_a_configuration_is_told_at_once() -> None:
    text = "plugins: [{type: queue-scorerr}, {type: max-score-picker, parameters: {bad: 1}}]"

    with pytest.raises(ConfigError) as caught:
        Picker.from_config(text)

    assert "plugins[0].type" in str(caught.value)
    assert "plugins[1].parameters.bad" in str(caught.value)


def test_what_may_not_be_meant_is_a_warning() -> None:
    assert picker_of().warnings == []
    assert "no scorer" in picker_of(text="plugins: [{type: random-picker}]").warnings[0]


def test_an_experimental_plugin_is_asked_for() -> None:
    text = "plugins: [{type: agent-identity}, {type: queue-scorer}]"

    with pytest.raises(
        ConfigError, match=r"stability Alpha; allow it with allow_experimental=True$"
    ):
        Picker.from_config(text)
    assert Picker.from_config(text, allow_experimental=True).endpoints == ()


def test_a_plugin_turns_a_request_away_with_its_own_words() -> None:
    picker = Picker.from_config(PLUGINS, plugins={"under-test": Doorkeeper})
    picker.add("a")

    with pytest.raises(Rejection, match="who are you") as caught:
        picker.pick(model="m", prompt="Hello")
    assert caught.value.http_status == 401


@pytest.mark.parametrize("kind", [WaitingProducer, ThreadedProducer, WaitingHook])
def test_a_plugin_that_waits_is_refused(kind: type[Plugin]) -> None:
    with pytest.raises(ConfigError, match="waits for nothing, but 'under-test' would"):
        Picker.from_config(PLUGINS, plugins={"under-test": kind})
