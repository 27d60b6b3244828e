"""Parameters that name the producer of what a plugin reads, by the way they are called."""

from __future__ import annotations

from epp.config.findings import unknown_name
from epp.config.instances import Instances
from epp.framework.plugin import Parameters


def producer_parameters(parameters: Parameters | None) -> dict[str, object]:
    """Parameters that name producers, and what they are set to."""
    if parameters is None:
        return {}
    return {
        field.alias or name: getattr(parameters, name)
        for name, field in type(parameters).model_fields.items()
        if name == "producer" or name.endswith("producer_name")
    }


def warn_of_idle_names(instances: Instances) -> None:
    """Names of nobody where nothing is read: as a plugin is configured they have no effect."""
    for instance in instances.all:
        read = {wanted.producer for wanted in instance.inputs}
        for parameter, name in producer_parameters(instance.parameters).items():
            if not isinstance(name, str) or not name or name in read:
                continue
            # A default producer may be named that nothing needs.
            if not instances.knows(name) and not instances.knows_type(name):
                unknown = unknown_name(name, "plugin of this document", instances.names)
                instances.findings.warning(
                    f"{instance.where}.parameters.{parameter}",
                    f"without effect as {instance.name!r} is configured, and {unknown}",
                )
