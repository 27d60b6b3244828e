"""What becomes of a pick, and who is told."""

from __future__ import annotations

from typing import cast

import pytest

from epp.framework import Usage
from epp.library import Pick, Picker
from tests.fakes.plugins.library import PLUGINS, Diary


@pytest.fixture
def picker() -> Picker:
    """One endpoint, and a plugin that keeps what it is told."""
    made = Picker.from_config(PLUGINS, plugins={"under-test": Diary})
    made.add("a")
    return made


@pytest.fixture
def pick(picker: Picker) -> Pick:
    made = picker.pick(model="m", prompt="Hello", headers={"X-Secret": "s"})
    told(picker)
    return made


def told(picker: Picker) -> list[str]:
    """What the plugin was told since this was last asked."""
    diary = cast("Diary", picker.plugins["under-test"])
    lines, diary.lines = diary.lines, []
    return lines


def test_a_pick_is_in_flight_until_it_is_done(pick: Pick) -> None:
    assert pick.endpoint.load.in_flight == 1

    pick.done()
    pick.done()
    pick.failed()

    assert pick.endpoint.load.in_flight == 0


def test_a_pick_says_what_to_set_on_the_request(pick: Pick) -> None:
    assert pick.headers["x-seen"] == "yes"
    assert pick.headers["x-secret"] is None
    assert "x-request-id" in pick.headers
    assert ":path" not in pick.headers


def test_plugins_are_told_of_every_step_once(picker: Picker, pick: Pick) -> None:
    changes = pick.responded(200, {"Content-Type": "text/event-stream"})
    pick.first_token()
    pick.first_token()
    pick.done(usage=Usage(completion_tokens=12))
    pick.first_token()

    assert changes == {"x-session": "s1"}
    assert told(picker) == [
        "responded 200 text/event-stream",
        "first token",
        "ended 200 natural",
        "complete True, 12 tokens",
    ]


def test_a_response_that_is_told_of_at_its_end_only_is_a_whole_one(
    picker: Picker, pick: Pick
) -> None:
    pick.done(503)

    assert told(picker) == ["responded 503 None", "ended 503 natural", "complete True, None tokens"]
    assert pick.responded() == {"x-session": "s1"}


def test_a_request_that_never_reached_its_endpoint_has_no_response(
    picker: Picker, pick: Pick
) -> None:
    pick.failed()

    assert told(picker) == ["ended 0 error", "complete True, None tokens"]


def test_a_block_ends_the_request_as_it_ends(picker: Picker) -> None:
    with picker.pick(model="m", prompt="Hello"):
        pass
    assert "ended 200 natural" in told(picker)

    with pytest.raises(RuntimeError, match="connection lost"), picker.pick(model="m", prompt="a"):
        raise RuntimeError("connection lost")
    assert "ended 0 error" in told(picker)

    with picker.pick(model="m", prompt="Hello") as pick:
        pick.done(429)
    assert [line for line in told(picker) if line.startswith("ended")] == ["ended 429 natural"]


def test_listeners_are_told_of_endpoints(picker: Picker) -> None:
    picker.add("b")
    picker.add("b", labels={"zone": "z"})
    picker.remove("b")

    assert told(picker) == [
        "added a {}",
        "added b {}",
        "replaced b {'zone': 'z'}",
        "removed b",
    ]


def test_an_endpoint_that_answers_with_errors_is_ejected_for_a_while() -> None:
    clock = [0.0]
    picker = Picker.from_config("plugins: [{type: queue-scorer}]", now=lambda: clock[0])
    for name in ("bad", "good"):
        picker.add(name)
    for _ in range(5):
        picker.pick(model="m", prompt="a", among=["bad"]).done(500)

    picks = {picker.pick(model="m", prompt="a").address for _ in range(4)}
    clock[0] = 1000.0
    later = {picker.pick(model="m", prompt="a").address for _ in range(4)}

    assert picks == {"good"}
    assert "bad" in later


def test_an_endpoint_that_was_ejected_and_comes_back_starts_anew() -> None:
    picker = Picker.from_config("plugins: [{type: queue-scorer}]")
    for name in ("bad", "good"):
        picker.add(name)
    for _ in range(5):
        picker.pick(model="m", prompt="a", among=["bad"]).done(500)

    picker.remove("bad")
    picker.add("bad")

    assert {picker.pick(model="m", prompt="a").address for _ in range(4)} == {"bad", "good"}


def test_a_pick_tells_why_and_what_else() -> None:
    two = "{type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}"
    picker = Picker.from_config(f"plugins: [{{type: queue-scorer}}, {two}]")
    for name in ("a", "b", "c"):
        picker.add(name)

    pick = picker.pick(model="m", prompt="Hello")

    assert pick.result is not None
    assert pick.result.endpoints == (pick.endpoint, *pick.fallbacks)
    assert len(pick.fallbacks) == 1
    assert "queue" in pick.reason
