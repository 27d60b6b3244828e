"""One revision for each request of a rollout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from epp.framework.endpoint import Endpoint, EndpointId
from epp.framework.headers import Headers
from epp.framework.request import InferenceResponse
from epp.plugins.screeners.disaggregatedset_rollout import (
    GATING_SHARE,
    NO_MATCH,
    DisaggregatedSetRolloutScreener,
)
from epp.testing import FakeContext, built, endpoint_of, request_of

REVISION, ROLE, SLICE = (
    f"disaggregatedset.x-k8s.io/{name}" for name in ("revision", "role", "slice")
)
BY_REVISION = {"name": "revision", "header_name": "X-Rev", "label_key": REVISION, "mode": "strict"}
BY_SLICE = {"name": "slice", "header_name": "x-slice", "label_key": SLICE, "mode": "prefer"}


def pod(name: str, revision: str, role: str, **labels: str) -> Endpoint:
    return endpoint_of(name, labels={"set": "s", REVISION: revision, ROLE: role, **labels})


A_PREFILL, A_DECODE = pod("e1", "a", "prefill"), pod("e2", "a", "decode")
B_PREFILL, B_DECODE = pod("e3", "b", "prefill"), pod("e4", "b", "decode")
C_DECODE = pod("e5", "c", "decode")
ALL = [A_PREFILL, A_DECODE, B_PREFILL, B_DECODE, C_DECODE]


def screener(
    *known: Endpoint, context: FakeContext | None = None, **parameters: Any
) -> DisaggregatedSetRolloutScreener:
    gating = {"mode": "sum", "require_roles": {"values": ["prefill", "decode"]}}
    made = built(
        DisaggregatedSetRolloutScreener,
        context or FakeContext(),
        **{
            "scope": {"label_selector": "set=s"},
            "revision_gating": gating,
            "header_selectors": [BY_REVISION, BY_SLICE],
            **parameters,
        },
    )
    for endpoint in known or ALL:
        made.endpoint_added(endpoint)
    return made


def test_a_request_sees_one_complete_revision() -> None:
    made = screener()

    seen = {tuple(made.screen(request_of(), ALL)) for _ in range(100)}

    assert seen == {(A_PREFILL, A_DECODE), (B_PREFILL, B_DECODE)}


def test_revisions_are_drawn_by_their_pods() -> None:
    more = [pod(f"e{number}", "a", "decode") for number in range(10, 16)]
    made = screener(*ALL, *more)

    draws = [made.screen(request_of(), ALL)[0] for _ in range(4000)]

    assert 0.77 < draws.count(A_PREFILL) / len(draws) < 0.83


def test_a_revision_without_candidates_is_never_drawn() -> None:
    made = screener()

    assert all(made.screen(request_of(), [A_DECODE, C_DECODE]) == [A_DECODE] for _ in range(50))


def test_without_a_complete_revision_there_is_nobody() -> None:
    assert screener(A_PREFILL, B_DECODE).screen(request_of(), [A_PREFILL, B_DECODE]) == []


def test_a_dry_run_that_asks_for_an_unknown_revision_is_not_counted() -> None:
    context = FakeContext(name="rollout")
    request = request_of(headers={"x-rev": "z"})
    request.is_dry_run = True

    assert screener(context=context).screen(request, ALL) == []

    assert sum(series.value for series in context.series(NO_MATCH.name).values()) == 0


@pytest.mark.parametrize(
    ("wanted", "kept", "misses"),
    [("b", [B_PREFILL, B_DECODE], 0), ("c", [], 1), ("z", [], 1)],
    ids=["complete", "incomplete", "unknown"],
)
def test_a_strict_header_asks_for_its_revision_and_for_no_other(
    wanted: str, kept: list[Endpoint], misses: int
) -> None:
    context = FakeContext(name="rollout")
    made = screener(context=context)

    assert made.screen(request_of(headers={"x-rev": wanted}), ALL) == kept
    series = context.series(NO_MATCH.name)
    assert series["a-plugin", "rollout", "revision"].value == misses


def test_a_preferred_header_drops_nobody() -> None:
    made = screener(A_PREFILL, A_DECODE)

    kept = made.screen(request_of(headers={"x-slice": "7"}), [A_PREFILL, A_DECODE])

    assert kept == [A_PREFILL, A_DECODE]


def test_other_strict_labels_narrow_the_draw() -> None:
    strict_slice = {**BY_SLICE, "mode": "strict"}
    first, second = (pod(f"e{n}", "a", "prefill", **{SLICE: str(n)}) for n in (6, 7))
    made = screener(first, second, A_DECODE, header_selectors=[strict_slice])

    assert made.screen(request_of(headers={"x-slice": "7"}), [first, second]) == [second]


def test_without_gating_only_strict_headers_drop_endpoints() -> None:
    made = screener(revision_gating={"mode": "disabled"})

    assert made.screen(request_of(), ALL) == ALL
    assert made.screen(request_of(headers={"x-rev": "c"}), ALL) == [C_DECODE]
    assert made.dump_state() is None


def test_endpoints_that_come_change_and_go_are_followed() -> None:
    made = screener(A_PREFILL)
    made.endpoint_added(B_DECODE)
    assert made.screen(request_of(), ALL) == []

    made.endpoint_replaced(replace(B_DECODE, labels={**B_DECODE.labels, REVISION: "a"}))
    assert made.screen(request_of(), ALL) == [A_PREFILL, A_DECODE]

    made.endpoint_removed(B_DECODE)
    assert made.screen(request_of(), ALL) == []


@pytest.mark.parametrize("labels", [{"set": "other"}, {ROLE: ""}, {REVISION: ""}])
def test_pods_out_of_scope_do_not_count(labels: dict[str, str]) -> None:
    made = screener(A_PREFILL, A_DECODE)
    made.endpoint_replaced(replace(A_DECODE, labels={**A_DECODE.labels, **labels}))

    assert made.screen(request_of(), [A_PREFILL]) == []


def test_ranks_of_a_pod_are_one_pod() -> None:
    ranks = [replace(A_DECODE, id=EndpointId("uid-e2", port)) for port in (8001, 8002, 8003)]
    made = screener(A_PREFILL, A_DECODE, B_PREFILL, B_DECODE, *ranks)

    assert made.dump_state() == {"mode": "sum", "shares": {"a": 0.5, "b": 0.5}}


def test_the_response_tells_the_labels_of_who_served() -> None:
    served = pod("e9", "a", "decode", **{SLICE: "4"})
    response = InferenceResponse(headers=Headers(), status=200, streaming=False)
    made = screener()

    made.response_header(request_of(), response, C_DECODE)
    made.response_header(request_of(), response, None)
    assert response.headers.changes == {"x-rev": b"c"}

    made.response_header(request_of(), response, served)
    assert response.headers.changes == {"x-rev": b"a", "x-slice": b"4"}


def test_shares_are_shown_while_their_revisions_exist() -> None:
    context = FakeContext(name="rollout")
    made = screener(context=context)
    made.endpoint_removed(B_PREFILL)
    made.endpoint_removed(B_DECODE)

    shown = {labels[2:]: gauge.value for labels, gauge in context.series(GATING_SHARE.name).items()}

    assert shown == {("sum", "a"): 1, ("sum", "c"): 0}


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"scope": {"label_selector": "a in b"}}, "is no term of a label selector"),
        ({"revision_gating": {"mode": "sum"}}, r"requireRoles\.values needs a role"),
        ({"revision_gating": {"mode": "any"}}, "'max-role'"),
        ({"header_selectors": [BY_SLICE, BY_SLICE]}, "every name must be another one"),
        ({"header_selectors": [{**BY_SLICE, "label_key": "a b"}]}, "is not a label key"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(
    parameters: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        screener(**parameters)
