"""When a request meets which plugins: what is read must have been written (scheduling §2.8)."""

from __future__ import annotations

from epp.framework.plugin import Plugin
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
from epp.framework.scheduling import Filter, Picker, ProfileHandler, Scorer

_STAGES: tuple[tuple[type[Plugin], ...], ...] = (
    (RequestHeader,),
    (Screener,),
    (DataProducer,),
    (Admitter,),
    (ProfileHandler, Filter, Scorer, Picker),
    (PreRequest, ResponseHeader, ResponseBody, ResponseProgress, ResponseMetadata),
)
"""What a request meets, in this order."""


def is_written_after(producer: Plugin, reader: Plugin) -> bool:
    """Whether `producer` is first called when `reader` has been called for the last time."""
    return min(_stages(producer)) > max(_stages(reader))


def _stages(plugin: Plugin) -> list[int]:
    """When it is called; a plugin that others refer to is called at any time."""
    stages = [index for index, kinds in enumerate(_STAGES) if isinstance(plugin, kinds)]
    return stages or list(range(len(_STAGES)))
