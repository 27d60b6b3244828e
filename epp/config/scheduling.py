"""Profiles, their pickers and their handler, with what a document leaves out (scheduling §2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from epp.config.document import Document, ProfileEntry
from epp.config.findings import Findings, listed
from epp.config.instances import Instance, Instances
from epp.config.references import added_as, resolved
from epp.framework.errors import ConfigError
from epp.framework.flow_control import SaturationDetector
from epp.framework.scheduling import Filter, Picker, ProfileHandler, Scorer

DEFAULT_PROFILE = "default"
DEFAULT_HANDLER = "single-profile-handler"
DEFAULT_PICKER = "max-score-picker"
DEFAULT_WEIGHT = 1.0


@dataclass(slots=True, kw_only=True)
class Member:
    """A plugin of a profile."""

    instance: Instance
    weight: float = DEFAULT_WEIGHT

    @property
    def is_scorer(self) -> bool:
        """Whether the weight means anything."""
        return isinstance(self.instance.plugin, Scorer)


@dataclass(slots=True, kw_only=True)
class Profile:
    """A scheduling profile whose plugins are found."""

    name: str
    members: list[Member] = field(default_factory=list)
    picker: Instance | None = None
    """One of the members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """Everything that the scheduler is made of."""

    profiles: Sequence[Profile]
    handler: Instance | None
    """None only if there is a problem."""


def complete_scheduling(document: Document, instances: Instances) -> Scheduling:
    """The profiles of the document, or the default one, each with a picker, and the handler."""
    if document.profiles:
        profiles = [_profile(entry, instances) for entry in document.profiles]
    else:
        profiles = [_default_profile(instances)]
    handler = _handler(profiles, instances)
    _complete_pickers(profiles, instances)
    _warn(profiles, instances)
    return Scheduling(profiles=profiles, handler=handler)


def _profile(entry: ProfileEntry, instances: Instances) -> Profile:
    findings = instances.findings
    profile = Profile(name=entry.name)
    for reference in entry.plugins:
        instance = resolved(reference, instances)
        if instance is None:
            continue
        weight = DEFAULT_WEIGHT if reference.weight is None else reference.weight
        member = Member(instance=instance, weight=weight)
        _add(profile, member, reference.path, findings)
        path = reference.path.removesuffix("pluginRef") + "weight"
        if weight < 0:
            findings.warning(
                path, f"{weight:g} prefers the endpoints that {instance.name!r} rates low"
            )
        if reference.weight is not None and not member.is_scorer:
            findings.warning(path, f"without effect: {instance.name!r} is no scorer")
        if not isinstance(instance.plugin, (Filter, Scorer, Picker)):
            findings.warning(
                reference.path,
                f"without effect: {instance.name!r} is neither filter, scorer nor picker",
            )
    return profile


def _default_profile(instances: Instances) -> Profile:
    profile = Profile(name=DEFAULT_PROFILE)
    for instance in instances.all:
        if isinstance(instance.plugin, (Filter, Scorer, Picker)):
            _add(profile, Member(instance=instance), instance.where, instances.findings)
    return profile


def _add(profile: Profile, member: Member, path: str, findings: Findings) -> None:
    profile.members.append(member)
    if not isinstance(member.instance.plugin, Picker):
        return
    if profile.picker is not None:
        findings.problem(
            path,
            f"{member.instance.name!r} is a second picker in profile {profile.name!r}, after"
            f" {profile.picker.name!r}; a profile has one",
        )
        return
    profile.picker = member.instance


def _handler(profiles: Sequence[Profile], instances: Instances) -> Instance | None:
    handlers = instances.of_kind(ProfileHandler)
    names = [profile.name for profile in profiles]
    if len(handlers) > 1:
        instances.findings.problem(
            handlers[1].where,
            f"several profile handlers: {listed(handler.name for handler in handlers)};"
            " only one is allowed",
        )
        return None
    if not handlers and len(profiles) > 1:
        if instances.is_complete:
            instances.findings.problem(
                "schedulingProfiles",
                f"no profile handler for {listed(names)}; list one in `plugins`",
            )
        return None
    handler = handlers[0] if handlers else added_as(DEFAULT_HANDLER, ProfileHandler, instances)
    if handler is None or not isinstance(handler.plugin, ProfileHandler):
        return None
    try:
        handler.plugin.check(names)
    except ConfigError as error:
        instances.findings.problem("schedulingProfiles", str(error))
    else:
        for doubt in handler.plugin.doubts(names):
            instances.findings.warning("schedulingProfiles", doubt)
    return handler


def _complete_pickers(profiles: Sequence[Profile], instances: Instances) -> None:
    """The first picker of the document goes to every profile that has none."""
    pickers = instances.of_kind(Picker)
    default = pickers[0] if pickers else added_as(DEFAULT_PICKER, Picker, instances)
    for profile in profiles:
        if profile.picker is None and default is not None:
            profile.picker = default
            profile.members.append(Member(instance=default))


def _warn(profiles: Sequence[Profile], instances: Instances) -> None:
    used = {member.instance.name for profile in profiles for member in profile.members}
    for profile in profiles:
        if not any(member.is_scorer for member in profile.members) and instances.is_complete:
            instances.findings.warning(
                "schedulingProfiles",
                f"profile {profile.name!r} has no scorer: every endpoint is as good as any other",
            )
    for instance in instances.all:
        is_for_profiles = isinstance(instance.plugin, (Filter, Scorer, Picker))
        is_detector = isinstance(instance.plugin, SaturationDetector)
        if is_for_profiles and not is_detector and instance.name not in used:
            instances.findings.warning(instance.where, f"{instance.name!r} is in no profile")
