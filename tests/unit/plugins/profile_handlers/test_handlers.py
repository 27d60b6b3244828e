"""Handlers of one profile per request, and the older ones for prefill and decode."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from pydantic import ValidationError

from epp.framework.endpoint import Endpoint
from epp.framework.errors import ConfigError, Rejection
from epp.framework.request import InferenceRequest
from epp.framework.scheduling import ProfileHandler
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.plugins.profile_handlers.data_parallel import (
    DataParallelParameters,
    DataParallelProfileHandler,
)
from epp.plugins.profile_handlers.deciders import AlwaysDisaggPdDecider
from epp.plugins.profile_handlers.disagg_headers import DisaggHeadersHandler, PrefillHeaderHandler
from epp.plugins.profile_handlers.header import HeaderProfileHandler
from epp.plugins.profile_handlers.pd import PD_DECISIONS, PdParameters, PdProfileHandler
from epp.plugins.profile_handlers.single import SingleProfileHandler
from epp.testing import FakeContext, built, endpoint_of, request_of

E1 = endpoint_of("e1")
RANK3 = endpoint_of("e2", address="10.0.0.2:8003")


def run(
    handler: ProfileHandler,
    request: InferenceRequest,
    profiles: Sequence[str],
    picks: Mapping[str, Endpoint],
) -> SchedulingResult:
    """The cycle over `profiles` that pick `picks`; the others find nothing."""
    results: dict[str, ProfileResult | None] = {}
    while names := handler.pick(request, profiles, results):
        for name in names:
            found = picks.get(name)
            results[name] = ProfileResult(endpoints=(found,)) if found else None
    return handler.process(request, results)


@pytest.mark.parametrize("kind", [SingleProfileHandler, DataParallelProfileHandler])
def test_one_profile_runs_once(kind: type[ProfileHandler]) -> None:
    handler = built(kind)

    assert handler.pick(request_of(), ("x",), {}) == ("x",)
    assert handler.pick(request_of(), ("x",), {"x": None}) == ()


@pytest.mark.parametrize("kind", [SingleProfileHandler, DataParallelProfileHandler])
@pytest.mark.parametrize("profiles", [[], ["a", "b"]])
def test_other_numbers_of_profiles_are_refused(
    kind: type[ProfileHandler], profiles: list[str]
) -> None:
    built(kind).check(["only"])

    with pytest.raises(ConfigError, match=f"exactly one profile, got {len(profiles)}"):
        built(kind).check(profiles)


@pytest.mark.parametrize(
    "kind", [SingleProfileHandler, DataParallelProfileHandler, HeaderProfileHandler]
)
def test_the_profile_that_failed_is_named(kind: type[ProfileHandler]) -> None:
    with pytest.raises(Rejection, match=re.escape("failed to run scheduler profile 'x'")) as caught:
        run(built(kind), request_of(), ("x",), {})

    assert caught.value.http_status == 429


def test_the_single_profile_is_primary() -> None:
    result = run(built(SingleProfileHandler), request_of(), ("x",), {"x": E1})

    assert result.primary == "x"
    assert result.endpoints == (E1,)


def test_a_rank_is_reached_through_the_primary_port_of_its_pod() -> None:
    request = request_of(headers={"x-data-parallel-host-port": "6.6.6.6:1"})

    result = run(built(DataParallelProfileHandler), request, ("x",), {"x": RANK3})

    (endpoint,) = result.endpoints
    assert (endpoint.address, endpoint.port) == ("10.0.0.2:8000", 8000)
    assert endpoint.state is RANK3.state
    assert endpoint.id == RANK3.id
    assert request.headers.changes == {"x-data-parallel-host-port": b"10.0.0.2:8003"}


def test_a_rank_of_ipv6_is_bracketed() -> None:
    endpoint = replace(RANK3, ip="fd00::2", address="[fd00::2]:8003")
    handler = built(DataParallelProfileHandler, primary_port=9000)

    result = run(handler, request_of(), ("x",), {"x": endpoint})

    assert result.endpoints[0].address == "[fd00::2]:9000"


def test_without_a_primary_port_endpoints_keep_theirs() -> None:
    request = request_of()
    handler = built(DataParallelProfileHandler, primary_port=0)

    assert run(handler, request, ("x",), {"x": RANK3}).endpoints == (RANK3,)
    assert not request.headers.changes


@pytest.mark.parametrize("port", [-1, 65536])
def test_ports_out_of_range_are_refused(port: int) -> None:
    for parameters in (DataParallelParameters, PdParameters):
        with pytest.raises(ValidationError, match="primaryPort"):
            parameters.model_validate({"primaryPort": port})


@pytest.mark.parametrize(
    ("value", "chosen"),
    [("prefill", "prefill"), (" prefill ", "prefill"), ("", "decode"), (None, "decode")],
)
def test_a_header_names_the_profile(value: str | None, chosen: str) -> None:
    request = request_of(headers={} if value is None else {"epp-profile": value})
    picks = {"prefill": E1, "decode": RANK3}

    result = run(built(HeaderProfileHandler), request, ("decode", "prefill"), picks)

    assert result.primary == chosen


@pytest.mark.parametrize("value", ["Prefill", "ghost"])
def test_an_unknown_profile_name_runs_nothing(value: str) -> None:
    request = request_of(headers={"epp-profile": value})

    assert built(HeaderProfileHandler).pick(request, ("decode", "prefill"), {}) == ()


def test_the_only_profile_runs_whatever_the_header_says() -> None:
    request = request_of(headers={"epp-profile": "ghost"})

    assert run(built(HeaderProfileHandler), request, ("x",), {"x": E1}).primary == "x"


def test_header_and_default_are_trimmed_and_may_be_blank() -> None:
    named = built(HeaderProfileHandler, header_name=" X-Stage ", default_profile=" b ")
    blank = built(HeaderProfileHandler, header_name=" ", default_profile=" ")
    request = request_of(headers={"x-stage": "a"})

    assert named.pick(request, ("a", "b"), {}) == ("a",)
    assert named.pick(request_of(), ("a", "b"), {}) == ("b",)
    assert blank.pick(request, ("a", "decode"), {}) == ("decode",)


def test_a_default_profile_that_is_given_must_exist() -> None:
    built(HeaderProfileHandler).check(["a", "b"])
    built(HeaderProfileHandler, default_profile="ghost").check(["a"])

    with pytest.raises(ConfigError, match="defaultProfile: 'ghost' is no profile; there are a, b"):
        built(HeaderProfileHandler, default_profile="ghost").check(["a", "b"])


def pd_context() -> FakeContext:
    return FakeContext("pd-profile-handler", plugins={"yes": AlwaysDisaggPdDecider()})


def test_pd_runs_decode_then_prefill_and_counts() -> None:
    context = pd_context()
    handler = built(PdProfileHandler, context, decider_plugin_name="yes")

    result = run(handler, request_of(), ("decode", "prefill"), {"decode": E1, "prefill": RANK3})

    assert result.primary == "decode"
    assert list(result.profiles) == ["decode", "prefill"]
    assert [labels[-1] for labels in context.series(PD_DECISIONS.name)] == ["prefill-decode"]


def test_pd_without_a_prefill_profile_is_refused() -> None:
    handler = built(PdProfileHandler, pd_context(), decider_plugin_name="yes")

    with pytest.raises(ConfigError, match="prefill stage: there is no profile 'prefill'"):
        handler.check(["decode"])


def test_pd_without_a_prefill_endpoint_is_a_503_unless_allowed() -> None:
    strict = built(PdProfileHandler, pd_context(), decider_plugin_name="yes")
    lenient = built(
        PdProfileHandler, pd_context(), decider_plugin_name="yes", allow_decode_only=True
    )

    with pytest.raises(Rejection, match="required") as caught:
        run(strict, request_of(), ("decode", "prefill"), {"decode": E1})
    result = run(lenient, request_of(), ("decode", "prefill"), {"decode": E1})

    assert caught.value.http_status == 503
    assert list(result.profiles) == ["decode"]


def test_pd_moves_decode_to_the_primary_port_and_leaves_prefill() -> None:
    handler = built(PdProfileHandler, pd_context(), decider_plugin_name="yes", primary_port=8000)
    request = request_of()

    result = run(handler, request, ("decode", "prefill"), {"decode": RANK3, "prefill": RANK3})

    assert result.endpoints[0].port == 8000
    assert result.profiles["prefill"].endpoints == (RANK3,)
    assert request.headers.get("x-data-parallel-host-port") == "10.0.0.2:8003"


@pytest.mark.parametrize("kind", [DisaggHeadersHandler, PrefillHeaderHandler])
def test_older_header_writers_go_by_profile_names(kind: type[DisaggHeadersHandler]) -> None:
    handler = built(kind, prefill_profile="p")
    result = SchedulingResult(
        primary="d",
        profiles={
            "d": ProfileResult(endpoints=(E1,)),
            "p": ProfileResult(endpoints=(RANK3,)),
        },
    )
    request = request_of(headers={"x-encoder-hosts-ports": "6.6.6.6:80"})

    handler.pre_request(request, result)

    assert request.headers.changes == {
        "x-prefiller-host-port": b"10.0.0.2:8003",
        "x-encoder-hosts-ports": None,
    }
