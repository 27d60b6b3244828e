from __future__ import annotations

import pytest

from epp.framework.data import Input, Output
from epp.framework.data_types import AGENT_IDENTITY
from epp.observability.metrics import Metrics
from epp.request_control.fairness import fairness_id_of
from epp.request_control.hooks import Hooks
from epp.request_control.parsing import ParserSelector
from epp.request_control.plan import RequestPlan
from epp.request_control.request_hooks import HookRunner
from epp.scheduling.profile import SchedulerProfile
from epp.scheduling.scheduler import ProfileScheduler
from epp.testing import request_of
from tests.fakes.plugins.scheduling import PicksBest, RunsInOrder

NEW, OLD = "x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"


def plan(*, reads_identity: bool = True) -> RequestPlan:
    identity = Input(AGENT_IDENTITY)
    identity.bind("agent-identity")
    return RequestPlan(
        parsers=ParserSelector([]),
        hooks=HookRunner(Hooks(), Metrics()),
        scheduler=ProfileScheduler([SchedulerProfile("p", picker=PicksBest())], RunsInOrder(["p"])),
        agent_identity=identity if reads_identity else None,
    )


@pytest.mark.parametrize(
    ("headers", "identity", "flow"),
    [
        ({NEW: "me"}, "agent", "me"),
        ({OLD: "me"}, "agent", "me"),
        ({NEW: "me", OLD: "you"}, "agent", "me"),
        ({NEW: "", OLD: "you"}, "agent", "agent"),
        ({}, "agent", "agent"),
        ({}, "", "default-flow"),
        ({}, None, "default-flow"),
    ],
    ids=[
        "new name",
        "old name",
        "new name first",
        "new name first though empty",
        "identity",
        "empty identity",
        "nothing",
    ],
)
def test_a_header_comes_before_the_agent_and_the_agent_before_the_flow_of_all(
    headers: dict[str, str], identity: str | None, flow: str
) -> None:
    request = request_of(headers=headers)
    if identity is not None:
        Output(AGENT_IDENTITY, "agent-identity").put(request, identity)

    assert fairness_id_of(request, plan()) == flow


def test_the_agent_does_not_matter_where_nobody_identifies_it() -> None:
    request = request_of()
    Output(AGENT_IDENTITY, "agent-identity").put(request, "agent")

    assert fairness_id_of(request, plan(reads_identity=False)) == "default-flow"
