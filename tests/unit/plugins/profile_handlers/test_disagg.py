"""Stages on pods of their own: which run, in which order, and what becomes of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from epp.framework.data_types import PEER_ENDPOINT, PREFIX_MATCH, TOKENIZED_PROMPT
from epp.framework.endpoint import Endpoint
from epp.framework.errors import ConfigError, Rejection
from epp.framework.request import InferenceRequest
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.plugins.profile_handlers.deciders import StageDecider
from epp.plugins.profile_handlers.disagg import DISAGG_DECISIONS, DisaggProfileHandler
from epp.plugins.profile_handlers.disagg_parameters import DisaggParameters
from epp.testing import FakeContext, built, endpoint_of, request_of

D1 = endpoint_of("e1")
P1 = endpoint_of("e2")
E1, E2 = endpoint_of("e3"), endpoint_of("e4")
PICKS = {"decode": (D1,), "prefill": (P1,), "encode": (E1, E2)}
STAGES = ("decode", "prefill", "encode")


class Decider(StageDecider):
    """Says what it was told to, and remembers the endpoints it was asked about."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.asked: list[Endpoint | None] = []

    def wants(self, request: InferenceRequest, endpoint: Endpoint | None) -> bool:
        self.asked.append(endpoint)
        return self.answer


class Disagg:
    """A handler and what is around it."""

    def __init__(
        self, *, prefill: bool | None = None, encode: bool | None = None, **parameters: Any
    ) -> None:
        self.prefill = Decider(bool(prefill))
        self.encode = Decider(bool(encode))
        self.context = FakeContext(
            "disagg-profile-handler", plugins={"p": self.prefill, "e": self.encode}
        )
        deciders = {}
        if prefill is not None:
            deciders["prefill"] = "p"
        if encode is not None:
            deciders["encode"] = "e"
        if deciders:
            parameters["deciders"] = deciders
        self.handler = built(DisaggProfileHandler, self.context, **parameters)
        self.request = request_of()
        self.ran: list[str] = []

    def run(self, picks: Mapping[str, tuple[Endpoint, ...]] = PICKS) -> SchedulingResult:
        """The cycle over three profiles that pick `picks`; the others find nothing."""
        results: dict[str, ProfileResult | None] = {}
        while names := self.handler.pick(self.request, STAGES, results):
            for name in names:
                self.ran.append(name)
                found = picks.get(name)
                results[name] = ProfileResult(endpoints=found) if found else None
        return self.handler.process(self.request, results)

    @property
    def peer(self) -> object:
        return self.request.attributes.get(PEER_ENDPOINT.key("disagg-profile-handler"))

    @property
    def decisions(self) -> dict[str, float]:
        """Counts by decision."""
        series = self.context.series(DISAGG_DECISIONS.name)
        return {labels[-1]: counter.value for labels, counter in series.items()}


@pytest.mark.parametrize(
    ("prefill", "encode", "ran", "decision"),
    [
        (None, None, ["decode"], "decode-only"),
        (False, False, ["decode"], "decode-only"),
        (True, None, ["decode", "prefill"], "prefill-decode"),
        (None, True, ["decode", "encode"], "encode-decode"),
        (True, True, ["decode", "encode", "prefill"], "encode-prefill-decode"),
        (True, False, ["decode", "prefill"], "prefill-decode"),
    ],
)
def test_decode_runs_first_and_then_what_its_deciders_want(
    prefill: bool | None, encode: bool | None, ran: list[str], decision: str
) -> None:
    disagg = Disagg(prefill=prefill, encode=encode)

    result = disagg.run()

    assert disagg.ran == ran
    assert result.primary == "decode"
    assert set(result.profiles) == set(ran)
    assert disagg.decisions == {decision: 1}


@pytest.mark.parametrize("answer", [True, False])
def test_each_decider_is_asked_once_about_the_decode_endpoint(answer: bool) -> None:
    disagg = Disagg(prefill=answer, encode=answer)

    disagg.run()

    assert disagg.prefill.asked == disagg.encode.asked == [D1]


def test_prefill_sees_the_decode_endpoint_as_its_peer() -> None:
    disagg = Disagg(prefill=True)

    disagg.run()

    assert disagg.peer is D1


def test_prefill_first_needs_no_decider_and_shows_decode_the_prefill_endpoint() -> None:
    disagg = Disagg(encode=True, stage_order="prefill-first")

    result = disagg.run()

    assert disagg.ran == ["prefill", "encode", "decode"]
    assert disagg.encode.asked == [None]
    assert disagg.peer is P1
    assert result.primary == "decode"
    assert disagg.decisions == {"encode-prefill-decode": 1}


def test_a_decline_in_prefill_first_is_not_asked_for_twice() -> None:
    disagg = Disagg(encode=False, stage_order="prefill-first")

    disagg.run()

    assert disagg.ran == ["prefill", "decode"]
    assert len(disagg.encode.asked) == 1


@pytest.mark.parametrize("order", ["decode-first", "prefill-first"])
@pytest.mark.parametrize("missing", ["prefill", "encode"])
def test_a_required_stage_without_endpoint_is_a_503(order: str, missing: str) -> None:
    prefill = True if order == "decode-first" else None
    disagg = Disagg(prefill=prefill, encode=True, stage_order=order)
    picks = {name: found for name, found in PICKS.items() if name != missing}

    with pytest.raises(Rejection, match=f"{missing} profile '{missing}' was required") as caught:
        disagg.run(picks)

    assert f"({missing}-filter goes by the label llm-d.ai/role)" in str(caught.value)
    assert caught.value.http_status == 503
    assert caught.value.drop_reason == "rejected-no-endpoints"
    assert caught.value.retry_after == 1
    assert disagg.ran[-1] == missing
    assert disagg.decisions == {}


@pytest.mark.parametrize("order", ["decode-first", "prefill-first"])
def test_decode_serves_alone_where_that_is_allowed(order: str) -> None:
    prefill = True if order == "decode-first" else None
    disagg = Disagg(prefill=prefill, encode=True, stage_order=order, allow_decode_only=True)

    result = disagg.run({"decode": (D1,)})

    assert sorted(disagg.ran) == sorted(STAGES)
    assert set(result.profiles) == {"decode"}
    assert disagg.peer is (D1 if order == "decode-first" else None)
    assert disagg.decisions == {"decode-only": 1}


@pytest.mark.parametrize("order", ["decode-first", "prefill-first"])
def test_nothing_goes_without_decode(order: str) -> None:
    disagg = Disagg(encode=True, stage_order=order)
    picks = {"prefill": (P1,), "encode": (E1,)}

    with pytest.raises(Rejection, match="failed to find available decode workers") as caught:
        disagg.run(picks)

    assert caught.value.http_status == 429
    assert disagg.ran == (
        ["decode"] if order == "decode-first" else ["prefill", "encode", "decode"]
    )


def test_stages_keep_their_roles_under_other_names() -> None:
    disagg = Disagg(prefill=True, profiles={"decode": "d", "prefill": "p"})
    results: dict[str, ProfileResult | None] = {
        "d": ProfileResult(endpoints=(D1,)),
        "p": ProfileResult(endpoints=(P1,)),
    }

    result = disagg.handler.process(disagg.request, results)

    assert result.roles == {"decode": "d", "prefill": "p", "encode": "encode"}
    assert result.stage("prefill") is results["p"]
    assert result.learning_endpoints == (D1, P1)


def test_headers_name_the_first_prefill_and_all_encode_endpoints() -> None:
    disagg = Disagg(prefill=True, encode=True)

    disagg.handler.pre_request(disagg.request, disagg.run())

    assert disagg.request.headers.changes == {
        "x-prefiller-host-port": b"10.0.0.2:8000",
        "x-encoder-hosts-ports": b"10.0.0.3:8000,10.0.0.4:8000",
    }


def test_headers_of_a_client_are_removed_when_no_stage_needs_them() -> None:
    disagg = Disagg()
    disagg.request = request_of(headers={"x-prefiller-host-port": "6.6.6.6:80"})

    disagg.handler.pre_request(disagg.request, disagg.run())

    assert disagg.request.headers.changes == {
        "x-prefiller-host-port": None,
        "x-encoder-hosts-ports": None,
    }


def test_addresses_of_ipv6_are_bracketed() -> None:
    disagg = Disagg(prefill=True)
    endpoint = endpoint_of(address="[fd00::1]:8000")

    disagg.handler.pre_request(
        disagg.request, disagg.run({"decode": (D1,), "prefill": (endpoint,)})
    )

    assert disagg.request.headers.get("x-prefiller-host-port") == "[fd00::1]:8000"


def test_decisions_are_counted_by_plugin_and_model() -> None:
    disagg = Disagg()
    disagg.run()
    disagg.request.target_model = ""
    disagg.run()

    counted = set(disagg.context.series(DISAGG_DECISIONS.name))

    of = ("disagg-profile-handler", "disagg-profile-handler")
    assert counted == {(*of, "m", "decode-only"), (*of, "unknown", "decode-only")}


def test_the_handler_asks_for_what_deciders_read() -> None:
    read = [made.data_type for made in Disagg().context.inputs]

    assert read == [PREFIX_MATCH, TOKENIZED_PROMPT]


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ("", "decode-first"),
        ("decode", "decode-first"),
        ("DecodeFirst", "decode-first"),
        ("prefill", "prefill-first"),
        ("PREFILL_FIRST", "prefill-first"),
    ],
)
def test_spellings_of_the_stage_order(given: str, order: str) -> None:
    assert DisaggParameters.model_validate({"stageOrder": given}).stage_order == order


def test_both_forms_say_the_same() -> None:
    nested = DisaggParameters.model_validate(
        {
            "profiles": {"decode": "a", "prefill": "b", "encode": "c"},
            "deciders": {"prefill": "p", "encode": "e"},
        }
    )
    flat = DisaggParameters.model_validate(
        {
            "decodeProfile": "a",
            "prefillProfile": "b",
            "encodeProfile": "c",
            "deciderPluginName": "p",
            "encodeDeciderPluginName": "e",
        }
    )

    for parameters in (nested, flat):
        said = (parameters.decode, parameters.prefill, parameters.encode)
        assert said == ("a", "b", "c")
        assert (parameters.prefill_decider, parameters.encode_decider) == ("p", "e")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"profiles": {}, "deciderPluginName": "p"},
            "the nested form (profiles) and the flat form (deciderPluginName)",
        ),
        ({"stageOrder": "encode"}, "must be decode-first or prefill-first, got 'encode'"),
        (
            {"stageOrder": "prefill-first", "deciders": {"prefill": "p"}},
            "deciders.prefill: 'p' can't be used with stageOrder prefill-first",
        ),
        ({"profiles": {"decoder": "d"}}, "profiles.decoder"),
    ],
)
def test_what_makes_no_sense_is_refused(document: Mapping[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        DisaggParameters.model_validate(document)


@pytest.mark.parametrize(
    ("parameters", "profiles", "message"),
    [
        (
            {},
            ["prefill"],
            "decode stage: there is no profile 'decode' (parameters.profiles.decode), only prefill",
        ),
        ({"decodeProfile": "d"}, ["decode"], "profile 'd' (parameters.decodeProfile), only decode"),
        (
            {"profiles": {"prefill": "decode"}},
            ["decode"],
            "the stages must have different profiles, got decode, decode, encode",
        ),
    ],
)
def test_profiles_that_do_not_fit_are_refused(
    parameters: dict[str, Any], profiles: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Disagg(**parameters).handler.check(profiles)


@pytest.mark.parametrize("stage", ["prefill", "encode"])
def test_a_stage_with_a_decider_and_without_a_profile_is_skipped_with_a_warning(
    stage: str,
) -> None:
    handler = Disagg(prefill=True, encode=True).handler
    profiles = [each for each in STAGES if each != stage]
    request, results = request_of(), dict[str, ProfileResult | None]()

    handler.check(profiles)
    (doubt,) = handler.doubts(profiles)
    while names := handler.pick(request, profiles, results):
        results |= {name: ProfileResult(endpoints=PICKS[name]) for name in names}

    assert f"{stage} stage: there is no profile '{stage}' (parameters.profiles.{stage})" in doubt
    assert "the stage is skipped, whatever its decider" in doubt
    assert sorted(results) == sorted(profiles)
    assert handler.doubts(STAGES) == []


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"deciders": {"prefill": "ghost"}}, "deciders.prefill"),
        ({"deciders": {"encode": "ghost"}}, "deciders.encode"),
        ({"prefill_decider_plugin_name": "ghost"}, "prefillDeciderPluginName"),
        ({"decider_plugin_name": "ghost"}, "deciderPluginName"),
        ({"encode_decider_plugin_name": "ghost"}, "encodeDeciderPluginName"),
    ],
)
def test_a_name_of_no_decider_is_refused_where_it_stands(
    parameters: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(field)}: 'ghost'"):
        built(DisaggProfileHandler, **parameters)
