"""The plugins around scheduling, by what they are called for."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What is configured at each extension point, in calling order."""

    request_header: tuple[RequestHeader, ...] = ()
    screener: tuple[Screener, ...] = ()
    data_producer: tuple[DataProducer, ...] = ()
    admitter: tuple[Admitter, ...] = ()
    pre_request: tuple[PreRequest, ...] = ()
    response_header: tuple[ResponseHeader, ...] = ()
    response_body: tuple[ResponseBody, ...] = ()
    response_progress: tuple[ResponseProgress, ...] = ()
    response_metadata: tuple[ResponseMetadata, ...] = ()

    @property
    def waiting_producers(self) -> list[DataProducer]:
        """Those for which a decision takes more than one turn of the event loop."""
        return [
            hook
            for hook in self.data_producer
            if hook.runs_in_thread or inspect.iscoroutinefunction(hook.produce)
        ]
