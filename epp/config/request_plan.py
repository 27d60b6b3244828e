"""From a blueprint to what requests meet on their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from epp.config.blueprint import Blueprint
from epp.config.instances import Instance
from epp.config.scheduling import Profile
from epp.config.wiring import default_of, writers
from epp.framework.data import DataType, Input
from epp.framework.data_types import AGENT_IDENTITY, PREFIX_MATCH
from epp.framework.errors import ConfigError
from epp.framework.flow_control import SaturationDetector
from epp.framework.request_control import (
    Admitter,
    DataProducer,
    PreRequest,
    RequestHeader,
    ResponseBody,
    ResponseHeader,
    ResponseMetadata,
    ResponseProgress,
    Screener,
)
from epp.framework.request_handling import Parser
from epp.framework.scheduling import Filter, Picker, ProfileHandler, Scorer
from epp.request_control.hooks import Hooks
from epp.request_control.parsing import ParserSelector
from epp.request_control.plan import RequestPlan
from epp.request_control.request_hooks import HookRunner
from epp.scheduling.profile import SchedulerProfile
from epp.scheduling.scheduler import ProfileScheduler

if TYPE_CHECKING:
    from epp.observability.metrics import Metrics

T = TypeVar("T")


def build_plan(blueprint: Blueprint, metrics: Metrics, now: Callable[[], float]) -> RequestPlan:
    """Everything that requests meet."""
    detector = blueprint.detector.plugin if blueprint.detector else None
    return RequestPlan(
        parsers=ParserSelector(
            [i.plugin for i in blueprint.parsers if isinstance(i.plugin, Parser)]
        ),
        hooks=HookRunner(_hooks(blueprint), metrics, now),
        scheduler=_scheduler(blueprint, metrics, now),
        saturation_detector=detector if isinstance(detector, SaturationDetector) else None,
        prefix_match=_input(PREFIX_MATCH, blueprint.instances),
        agent_identity=_input(AGENT_IDENTITY, blueprint.instances),
    )


def _hooks(blueprint: Blueprint) -> Hooks:
    plugins = [instance.plugin for instance in blueprint.instances]
    by_name = {plugin.name: plugin for plugin in plugins}
    ordered = [by_name[name] for name in blueprint.order]
    return Hooks(
        request_header=tuple(p for p in plugins if isinstance(p, RequestHeader)),
        screener=tuple(p for p in plugins if isinstance(p, Screener)),
        data_producer=tuple(p for p in ordered if isinstance(p, DataProducer)),
        admitter=tuple(p for p in plugins if isinstance(p, Admitter)),
        pre_request=tuple(p for p in plugins if isinstance(p, PreRequest)),
        response_header=tuple(p for p in plugins if isinstance(p, ResponseHeader)),
        response_body=tuple(p for p in plugins if isinstance(p, ResponseBody)),
        response_progress=tuple(p for p in plugins if isinstance(p, ResponseProgress)),
        response_metadata=tuple(p for p in plugins if isinstance(p, ResponseMetadata)),
    )


def _scheduler(
    blueprint: Blueprint, metrics: Metrics, now: Callable[[], float]
) -> ProfileScheduler:
    handler = blueprint.scheduling.handler.plugin if blueprint.scheduling.handler else None
    if not isinstance(handler, ProfileHandler):
        raise ConfigError("there is no profile handler")
    profiles = [_profile(profile, metrics, now) for profile in blueprint.scheduling.profiles]
    return ProfileScheduler(profiles, handler, observer=metrics, now=now)


def _profile(profile: Profile, metrics: Metrics, now: Callable[[], float]) -> SchedulerProfile:
    members = [(member.instance.plugin, member.weight) for member in profile.members]
    picker = profile.picker.plugin if profile.picker else None
    if not isinstance(picker, Picker):
        raise ConfigError(f"profile {profile.name!r} has no picker")
    return SchedulerProfile(
        profile.name,
        filters=[plugin for plugin, _ in members if isinstance(plugin, Filter)],
        scorers=[(plugin, weight) for plugin, weight in members if isinstance(plugin, Scorer)],
        picker=picker,
        observer=metrics,
        now=now,
    )


def _input(data_type: DataType[T], instances: Sequence[Instance]) -> Input[T] | None:
    """Read access of the director's own: to the default producer, else to the first there is."""
    found = writers(data_type, instances)
    if not found:
        return None
    made = Input(data_type, required=False)
    made.bind((default_of(data_type, found) or found[0]).name)
    return made
