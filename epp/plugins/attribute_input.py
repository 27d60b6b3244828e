"""How a configuration names a numeric attribute of endpoints and who writes it (scheduling §9)."""

from __future__ import annotations

from epp.framework.data import Input
from epp.framework.data_types import endpoint_attribute
from epp.framework.plugin import PluginContext

PRODUCER_DESCRIPTION = (
    "Producer of the attribute: left out, it is the extractor of metrics; empty, it is anybody."
)


def check_attribute(field: str, attribute: str, producer: str | None) -> None:
    """Raise `ValueError` for a name that looks as if it carried its producer."""
    if producer is None and "/" in attribute:
        raise ValueError(
            f"{field} {attribute!r} has a slash: say in `producer` who writes it"
            ' (the name of a plugin, or "" for anybody)'
        )


def attribute_input(context: PluginContext, attribute: str, producer: str | None) -> Input[float]:
    """Read access to the attribute."""
    if producer == "":
        return context.consumes(endpoint_attribute(attribute, default_producer=""))
    return context.consumes(endpoint_attribute(attribute), producer=producer)
