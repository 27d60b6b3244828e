"""Sessions through filter and scorer, from one request to the next."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from epp.framework.data import Output
from epp.framework.data_types import AGENT_IDENTITY, SESSION_ID
from epp.framework.endpoint import Endpoint, EndpointId
from epp.framework.headers import Headers
from epp.framework.plugin import Stability
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.plugins.filters.session_affinity import (
    MulticlusterSessionAffinityFilter,
    SessionAffinityFilter,
)
from epp.plugins.scorers.session_affinity import SessionAffinityScorer
from epp.testing import FakeContext, built, endpoint_of, request_of

E1, E2, E3 = ALL = [endpoint_of(f"e{number}") for number in (1, 2, 3)]


def token(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def picked(endpoint: Endpoint, **others: Endpoint) -> SchedulingResult:
    """A decision for `endpoint`, and for those of other profiles."""
    profiles = {"decode": endpoint, **others}
    return SchedulingResult(
        primary="decode",
        profiles={name: ProfileResult(endpoints=(one,)) for name, one in profiles.items()},
        roles={"prefill": "first-stage"},
    )


def answer(made: SessionAffinityFilter, request: InferenceRequest, served: Endpoint | None) -> Any:
    response = InferenceResponse(headers=Headers(), status=200, streaming=False)
    made.response_header(request, response, served)
    return response.headers.changes


class TestEncodedEndpointHeader:
    def test_the_endpoint_that_the_header_names_is_kept_alone(self) -> None:
        request = request_of(headers={"x-session-token": token("default/e2-rank-0")})

        assert built(SessionAffinityFilter).filter(request, ALL) == [E2]
        assert built(SessionAffinityScorer).score(request, ALL) == [0, 1, 0]

    @pytest.mark.parametrize(
        "value",
        [
            None,
            "",
            "%%%",
            "ZGVm",
            token("default/e9-rank-0"),
            token("other/e2-rank-0"),
            token("default/"),
            token("e2-rank-0"),
            base64.b64encode(b"\xff/\xff").decode(),
            "\u00e9",
        ],
    )
    def test_a_header_that_names_nobody_says_nothing(self, value: str | None) -> None:
        request = request_of(headers={} if value is None else {"x-session-token": value})

        assert built(SessionAffinityFilter).filter(request, ALL) == ALL
        assert built(SessionAffinityScorer).score(request, ALL) == [0, 0, 0]

    def test_the_response_names_the_endpoint_that_served_whoever_was_picked(self) -> None:
        made, request = built(SessionAffinityFilter), request_of()
        made.pre_request(request, picked(E1))

        assert answer(made, request, E2) == {"x-session-token": token("default/e2-rank-0").encode()}
        assert answer(made, request, None) == {}

    def test_what_the_response_says_pins_the_next_request(self) -> None:
        config = {"encoded_endpoint_header_config": {"header": "X-Sticky"}}
        made, request = built(SessionAffinityFilter, **config), request_of()
        told = answer(made, request, E3)["x-sticky"].decode()

        assert made.filter(request_of(headers={"x-sticky": told}), ALL) == [E3]

    @pytest.mark.parametrize("profile", ["first-stage", "prefill"])
    def test_a_named_profile_pins_to_its_own_first_endpoint(self, profile: str) -> None:
        made, request = built(SessionAffinityFilter, profile_name=profile), request_of()
        made.pre_request(request, picked(E1, **{"first-stage": E3}))

        told = answer(made, request, E1)["x-session-token"]

        assert told == token("default/e3-rank-0").encode()

    def test_a_named_profile_that_did_not_run_pins_to_nothing(self) -> None:
        made, request = built(SessionAffinityFilter, profile_name="prefill"), request_of()
        made.pre_request(request, picked(E1))

        assert answer(made, request, E1) == {}

    def test_two_instances_keep_apart_what_they_remember(self) -> None:
        request = request_of()
        one = built(SessionAffinityFilter, FakeContext(name="one"), profile_name="a")
        two = built(SessionAffinityFilter, FakeContext(name="two"), profile_name="b")
        for made in (one, two):
            made.pre_request(request, picked(E1, a=E2, b=E3))

        told = [answer(made, request, E1)["x-session-token"] for made in (one, two)]

        assert told == [token(f"default/e{number}-rank-0").encode() for number in (2, 3)]


def by_session_id(now: Any = None, **config: Any) -> SessionAffinityFilter:
    context = FakeContext(now=now) if now is not None else FakeContext()
    return built(SessionAffinityFilter, context, strategy="session_id", session_id_config=config)


def serve(
    made: SessionAffinityFilter, session: str, candidates: Sequence[Endpoint], choice: Endpoint
) -> list[Endpoint]:
    """One request of a session; gives what the filter kept."""
    request = request_of(headers={"x-session-id": session})
    kept = made.filter(request, candidates)
    made.pre_request(request, picked(choice))
    return kept


class TestSessionId:
    def test_a_session_stays_where_its_first_request_went(self) -> None:
        made = by_session_id()

        assert serve(made, "s", ALL, E2) == ALL
        assert serve(made, "s", ALL, E2) == [E2]
        assert serve(made, " s ", ALL, E2) == [E2]
        assert serve(made, "t", ALL, E1) == ALL

    def test_another_pick_moves_a_session_only_if_its_endpoint_was_not_to_be_had(self) -> None:
        made = by_session_id()
        serve(made, "s", ALL, E2)

        serve(made, "s", ALL, E3)
        assert serve(made, "s", ALL, E2) == [E2]

        assert serve(made, "s", [E1, E3], E3) == [E1, E3]
        assert serve(made, "s", ALL, E3) == [E3]

    def test_an_idle_session_starts_anew(self) -> None:
        times = iter([0.0])
        now = 0.0
        made = by_session_id(lambda: now, eviction_ttl_seconds=60)
        serve(made, "s", ALL, E2)
        now = next(times) + 61

        assert serve(made, "s", ALL, E1) == ALL
        assert serve(made, "s", ALL, E1) == [E1]

    def test_a_pod_recreated_under_its_name_is_another_endpoint(self) -> None:
        made = by_session_id()
        serve(made, "s", ALL, E2)
        reborn = replace(E2, id=EndpointId("uid-new", E2.port))

        assert serve(made, "s", [E1, reborn], E1) == [E1, reborn]

    def test_the_first_source_that_is_not_empty_counts(self) -> None:
        made = by_session_id(
            sources=[
                {"header": "X-Session-Id"},
                {"attribute": AGENT_IDENTITY.name},
                {"attribute": SESSION_ID.name, "producer": "mine"},
                {"attribute": "my-own", "producer": "me"},
            ]
        )
        for number, key in enumerate(("SessionIDDataKey/mine", "my-own/me"), 1):
            request = request_of()
            request.attributes[key] = f"s{number}"
            made.pre_request(request, picked(ALL[number]))
        both = request_of(headers={"x-session-id": "  "})
        Output(AGENT_IDENTITY, "agent-identity").put(both, "s2")

        assert made.filter(request_of(headers={"x-session-id": "s1"}), ALL) == [E2]
        assert made.filter(both, ALL) == [E3]

    def test_nothing_is_told_to_the_client(self) -> None:
        made, request = by_session_id(), request_of(headers={"x-session-id": "s"})
        made.pre_request(request, picked(E1))

        assert answer(made, request, E1) == {}

    def test_the_state_tells_the_number_of_sessions_and_no_session(self) -> None:
        made = by_session_id()
        serve(made, "secret", ALL, E2)

        assert made.dump_state() == {"sessions": 1}

    def test_a_named_profile_that_did_not_run_binds_nothing(self) -> None:
        made = built(SessionAffinityFilter, strategy="session_id", profile_name="prefill")
        serve(made, "s", ALL, E2)

        assert serve(made, "s", ALL, E2) == ALL


@pytest.mark.parametrize(
    "sources",
    [
        [],
        [{}],
        [{"header": "a", "attribute": "b"}],
        [{"header": "a", "producer": "p"}],
        [{"attribute": "SessionIDDataKey/session-id-producer"}],
    ],
)
def test_sources_that_contradict_themselves_are_refused(sources: list[Any]) -> None:
    with pytest.raises(ValidationError):
        by_session_id(sources=sources)


def test_the_multicluster_filter_is_the_same_under_its_own_name() -> None:
    request = request_of(headers={"x-session-token": token("default/e2-rank-0")})

    assert built(MulticlusterSessionAffinityFilter).filter(request, ALL) == [E2]
    assert MulticlusterSessionAffinityFilter.stability is Stability.ALPHA
