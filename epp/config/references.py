"""From the names in a document to the instances that are meant."""

from __future__ import annotations

from collections.abc import Sequence

from epp.config.document import Origin, Reference
from epp.config.findings import unknown_name
from epp.config.instances import Instance, Instances
from epp.framework.plugin import Plugin


def resolved(reference: Reference, instances: Instances) -> Instance | None:
    """The instance that is named; None if there is none or it can't be built, a finding."""
    if not instances.knows(reference.name):
        names = instances.names if instances.findings.hints_left else ()
        instances.findings.problem(
            reference.path, unknown_name(reference.name, "plugin of this document", names)
        )
        return None
    return instances.get(reference.name)


def resolved_as(
    reference: Reference, kinds: Sequence[type[Plugin]], instances: Instances
) -> Instance | None:
    """The same, which must be of one of these kinds."""
    instance = resolved(reference, instances)
    if instance is None or isinstance(instance.plugin, tuple(kinds)):
        return instance
    allowed = " or ".join(_with_article(kind.__name__) for kind in kinds)
    instances.findings.problem(
        reference.path,
        f"plugin {instance.name!r} (type {instance.plugin.type!r}) is not allowed; {allowed}",
    )
    return None


def added_as(plugin_type: str, kind: type[Plugin], instances: Instances) -> Instance | None:
    """The default instance of a type; a plugin that has its name must be as good as it."""
    instance = instances.add(plugin_type, Origin.DEFAULT)
    if instance is None or isinstance(instance.plugin, kind):
        return instance
    instances.findings.problem(
        instance.where,
        f"the name {plugin_type!r} is that of the default {kind.__name__}, which"
        f" {instance.entry.type} is not; give it a `name` of its own",
    )
    return None


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
