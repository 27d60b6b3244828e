from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from epp.admin.decision_viewing import view_decision
from epp.app.request_path import RequestPathSettings
from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.framework.request import InferenceRequest, TerminationCause
from epp.framework.request_control import DataProducer, PreRequest
from epp.framework.scheduling import Filter, Scorer
from epp.framework.scheduling_results import SchedulingResult
from epp.framework.trail import Trail
from epp.request_control.decision_log import Decision
from epp.request_control.director_settings import DirectorSettings
from epp.request_control.outliers import OutlierSettings
from tests.fakes.pickers.decided import Decided, incoming
from tests.fakes.plugins.hooks import KeepsFirst

ONE, TWO, THREE = ALL = ["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"]
DEFAULT = ""
EXAMPLES = Path(__file__).parents[3] / "config" / "examples"
ROLES = {
    ONE: {"llm-d.ai/role": "prefill"},
    TWO: {"llm-d.ai/role": "decode"},
    THREE: {"llm-d.ai/role": "decode"},
}
PROFILE = """
plugins: [{{type: {plugin}}}, {{type: max-score-picker}}]
schedulingProfiles:
- {{name: default, plugins: [{{pluginRef: {plugin}}}, {{pluginRef: max-score-picker}}]}}
"""
BESIDE = """
plugins: [{{type: {plugin}}}, {{type: max-score-picker}}]
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: max-score-picker}}]}}]
"""


def addresses(endpoints: Sequence[Endpoint]) -> list[str]:
    return [endpoint.address for endpoint in endpoints]


def left_out(decision: Decision) -> list[tuple[str, str, list[str]]]:
    told = view_decision(decision, decision.decided_at).left_out
    return [(each.by, each.plugin, each.endpoints) for each in told]


def trail(decision: Decision) -> Trail:
    assert decision.trail is not None
    return decision.trail


def steps(decision: Decision) -> list[tuple[str, str, str]]:
    names = [each.name for each in trail(decision).steps]
    return [(each.extension_point, each.plugin, each.profile) for each in names]


def failed(decision: Decision) -> list[str]:
    return [each.name.plugin for each in trail(decision).steps if each.failed]


def counted(picker: Decided) -> list[bytes]:
    """The metrics page, but for what the process itself goes on using up."""
    own = (b"process_", b"# ", b"python_")
    return [line for line in picker.page().splitlines() if not line.startswith(own)]


async def test_a_dry_run_goes_where_the_request_would_go() -> None:
    picker = Decided()
    for address in (ONE, TWO):
        picker.endpoint(address).state.metrics = EndpointMetrics(waiting_queue_size=3)

    rehearsed, real = await picker.rehearse(), picker.decide()

    assert addresses(rehearsed.endpoints) == addresses(real.endpoints) == [THREE]
    assert rehearsed.result is not None
    assert real.result is not None
    assert rehearsed.result.profiles["default"].totals == real.result.profiles["default"].totals


async def test_every_step_is_timed_in_calling_order() -> None:
    decision = await Decided().rehearse()

    assert steps(decision) == [
        ("RequestParsing", "openai-parser", ""),
        ("ProfilePicker", "single-profile-handler", ""),
        ("Scorer", "queue-scorer", "default"),
        ("Picker", "max-score-picker", "default"),
        ("ProfilePicker", "single-profile-handler", ""),
        ("ProcessProfilesResults", "single-profile-handler", ""),
    ]


async def test_equals_take_no_turn() -> None:
    picker = Decided()
    turns = [picker.decide().endpoints[0].address for _ in ALL]

    rehearsed = {(await picker.rehearse()).endpoints[0].address for _ in range(5)}

    assert set(turns) == set(ALL)
    assert rehearsed == {turns[0]}
    assert picker.decide().endpoints[0].address == turns[0]


async def test_no_prompt_is_learnt() -> None:
    picker = Decided(config=DEFAULT)
    for _ in range(3):
        await picker.rehearse()

    real = picker.decide()

    assert real.result is not None
    prefix = real.result.profiles["default"].scorers[-1]
    assert (prefix.name, list(prefix.scores)) == ("prefix-cache-scorer", [0.0, 0.0, 0.0])


@pytest.mark.parametrize("example", ["default", "disaggregated", "expected-work", "cold-prompts"])
async def test_nothing_is_counted_reserved_or_kept(example: str) -> None:
    picker = Decided(config=(EXAMPLES / f"{example}.yaml").read_text(), labels=ROLES)
    picker.decide().end(TerminationCause.NATURAL)
    page, kept = counted(picker), len(picker.log)

    decision = await picker.rehearse()

    assert decision.endpoints
    assert counted(picker) == page
    assert len(picker.log) == kept
    assert not any(each.load.in_flight for each in picker.datastore.snapshot().endpoints)


class Acts(DataProducer, PreRequest):
    """Is asked before the decision, and told of it."""

    type = "acts"

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.told = 0

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        self.asked.append(request.is_dry_run)

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        self.told += 1


async def test_plugins_are_told_that_it_is_a_dry_run_and_none_acts_on_it() -> None:
    picker = Decided(config=BESIDE.format(plugin="acts"), own_plugins=[Acts])
    assert picker.plugins.assembly is not None
    acts = picker.plugins.assembly.plugins["acts"]
    assert isinstance(acts, Acts)

    await picker.rehearse()
    picker.decide()

    assert acts.asked == [True, False]
    assert acts.told == 1


async def test_the_subset_of_the_gateway_and_its_others_are_told() -> None:
    decision = await Decided().rehearse(incoming(subset=["10.0.0.2"]))

    assert addresses(decision.endpoints) == [TWO]
    assert left_out(decision) == [("subset", "", [ONE, THREE])]


async def test_stale_and_ejected_endpoints_are_told() -> None:
    settings = RequestPathSettings(outliers=OutlierSettings(consecutive_errors=1))
    picker = Decided(settings=settings)
    picker.path.outliers.ended(picker.endpoint(ONE), 500)
    picker.endpoint(TWO).state.is_stale = True

    decision = await picker.rehearse()

    assert addresses(decision.endpoints) == [THREE]
    assert left_out(decision) == [("ejection", "", [ONE]), ("staleness", "", [TWO])]


async def test_a_dry_run_is_no_probe_of_an_ejected_endpoint() -> None:
    clock = [100.0]
    settings = RequestPathSettings(outliers=OutlierSettings(consecutive_errors=1))
    picker = Decided(settings=settings, now=lambda: clock[0])
    picker.path.outliers.ended(picker.endpoint(ONE), 500)
    clock[0] += 60.0

    only = [ONE, TWO]
    rehearsed = [await picker.rehearse(incoming(subset=only)) for _ in range(3)]

    assert [left_out(each) for each in rehearsed] == [[("subset", "", [THREE])]] * 3


async def test_screeners_are_told_by_name() -> None:
    picker = Decided(config=BESIDE.format(plugin="keeps-first"), own_plugins=[KeepsFirst])

    decision = await picker.rehearse()

    assert left_out(decision) == [("screener", "keeps-first", [TWO, THREE])]
    assert ("Screener", "keeps-first", "") in steps(decision)


class KeepsNobody(Filter):
    """Takes everybody out."""

    type = "keeps-nobody"

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        return []


async def test_a_rejection_tells_what_the_filters_removed() -> None:
    picker = Decided(config=PROFILE.format(plugin="keeps-nobody"), own_plugins=[KeepsNobody])

    decision = await picker.rehearse()

    assert decision.refusal is not None
    assert decision.refusal.status == 429
    [(profile, unpicked)] = trail(decision).unpicked
    [result] = unpicked.filters
    assert profile == "default"
    assert (result.name, addresses(result.before), list(result.after)) == ("keeps-nobody", ALL, [])


class Breaks(Filter, Scorer):
    """Has a bug, and quotes the prompt."""

    type = "breaks"

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        return list(endpoints)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        raise ValueError("secret prompt")


async def test_a_scorer_that_fails_is_told_and_its_score_is_missing() -> None:
    picker = Decided(config=PROFILE.format(plugin="breaks"), own_plugins=[Breaks])

    decision = await picker.rehearse()

    assert failed(decision) == ["breaks"]
    assert len(decision.endpoints) == 1


class BreaksAll(Filter):
    """Has a bug, and quotes the prompt."""

    type = "breaks-all"

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        raise ValueError("secret prompt")


async def test_a_fault_is_told_without_what_it_says() -> None:
    picker = Decided(config=PROFILE.format(plugin="breaks-all"), own_plugins=[BreaksAll])

    decision = await picker.rehearse()

    assert decision.refusal is not None
    assert (decision.refusal.status, decision.refusal.details) == (503, "epp_internal")
    assert failed(decision) == ["breaks-all"]
    assert decision.refusal.message == "ValueError while picking an endpoint; the log tells more"


class Waits(DataProducer):
    """Waits for what does not come."""

    type = "waits"
    timeout_seconds = 60.0

    async def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        await asyncio.Event().wait()


async def test_a_dry_run_has_the_deadline_of_every_decision() -> None:
    settings = RequestPathSettings(director=DirectorSettings(decision_timeout=0.01))
    config = BESIDE.format(plugin="waits")
    picker = Decided(config=config, own_plugins=[Waits], settings=settings)

    decision = await picker.rehearse()

    assert decision.refusal is not None
    assert decision.refusal.details == "epp_deadline"


async def test_a_window_of_bursts_is_not_waited_for() -> None:
    producer = "burst-prefix-cache-producer"
    config = f"""
    plugins:
    - {{type: {producer}, parameters: {{windowDurationMs: 10000}}}}
    - {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: {producer}}}}}
    """

    decision = await Decided(config=config).rehearse()

    assert ("DataProducer", producer, "") in steps(decision)
    assert not failed(decision)


async def test_a_body_that_can_not_be_read_is_the_rejection_it_would_be() -> None:
    decision = await Decided().rehearse(incoming(b"{"))

    assert decision.refusal is not None
    assert (decision.refusal.status, trail(decision).pool) == (400, None)
    assert steps(decision) == [("RequestParsing", "openai-parser", "")]


class Slow(DataProducer):
    """Takes longer than it may."""

    type = "slow"
    timeout_seconds = 0.5
    clock: ClassVar[list[float]] = [0.0]

    def __init__(self) -> None:
        self.calls = 0

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        self.calls += 1
        self.clock[0] += 1.0


async def test_a_plugin_that_was_switched_off_is_not_called_for_a_dry_run_either() -> None:
    config = BESIDE.format(plugin="slow")
    picker = Decided(config=config, own_plugins=[Slow], now=lambda: Slow.clock[0])
    assert picker.plugins.assembly is not None
    slow = picker.plugins.assembly.plugins["slow"]
    assert isinstance(slow, Slow)
    for _ in range(5):
        picker.decide()

    decision = await picker.rehearse()

    assert slow.calls == 5
    assert ("DataProducer", "slow", "") not in steps(decision)
