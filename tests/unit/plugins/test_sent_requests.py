from __future__ import annotations

from epp.framework.endpoint import Endpoint
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.plugins.sent_requests import SentRequest, SentStage
from epp.testing import endpoint_of

E1, E2 = (endpoint_of(f"e{number}") for number in (1, 2))


class Stage(SentStage):
    """Remembers what it was told."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint.id)
        self.told: list[str] = []

    def first_chunk(self) -> None:
        self.told.append("first chunk")

    def over(self) -> None:
        self.told.append("over")


def sent(primary: str, *others: str, prefill: str = "prefill") -> SentRequest[Stage]:
    profiles = {name: ProfileResult(endpoints=(E1,)) for name in (primary, *others)}
    request: SentRequest[Stage] = SentRequest(
        SchedulingResult(primary=primary, profiles=profiles, roles={"prefill": prefill})
    )
    request.stages.update({name: Stage(E1) for name in profiles})
    return request


def test_a_prefill_stage_is_over_with_the_first_chunk_and_the_others_later() -> None:
    request = sent("decode", "encode", "p", prefill="p")
    prefill = request.stages["p"]

    request.first_chunk()
    request.over()

    assert prefill.told == ["over"]
    assert [each.told for each in request.stages.values()] == [["first chunk", "over"]] * 2


def test_a_primary_stage_goes_on_after_the_first_chunk_whatever_it_is_called() -> None:
    request = sent("prefill")

    request.first_chunk()

    assert request.stages["prefill"].told == ["first chunk"]


def test_the_endpoint_that_serves_takes_over_what_the_primary_stage_added() -> None:
    request = sent("decode", "prefill")
    before = dict(request.stages)

    assert request.served_by(E2, lambda was: Stage(E2))
    assert not request.served_by(E2, lambda was: Stage(E2))

    assert request.stages["decode"].endpoint == E2.id
    assert request.stages["prefill"] is before["prefill"]
    assert [each.told for each in before.values()] == [["over"], []]
