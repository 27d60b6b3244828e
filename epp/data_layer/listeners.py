"""Tells plugins of endpoints; what one of them does wrong harms nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import structlog

from epp.support.fault_log import FaultLog
from epp.support.plugin_faults import PLUGIN_FAULTS

if TYPE_CHECKING:
    from epp.framework.data_layer import EndpointListener
    from epp.framework.endpoint import Endpoint
    from epp.observability.metrics import Metrics

log = structlog.get_logger(__name__)

_EXTENSION_POINT = "EndpointListener"


class Listeners:
    """The plugins that follow endpoints."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._listeners: Sequence[EndpointListener] = ()
        self._faults = FaultLog("plugin failed", log.warning)

    def replace(self, listeners: Sequence[EndpointListener], present: Iterable[Endpoint]) -> None:
        """Follow with these from now on; those that are new are told what is there."""
        known = {id(each) for each in self._listeners}
        self._listeners = listeners
        endpoints = tuple(present)
        for listener in listeners:
            if id(listener) not in known:
                for endpoint in endpoints:
                    self._tell(listener, listener.endpoint_added, endpoint)

    def added(self, endpoint: Endpoint) -> None:
        """A new endpoint."""
        for listener in self._listeners:
            self._tell(listener, listener.endpoint_added, endpoint)

    def replaced(self, endpoint: Endpoint) -> None:
        """Other metadata."""
        for listener in self._listeners:
            self._tell(listener, listener.endpoint_replaced, endpoint)

    def removed(self, endpoint: Endpoint) -> None:
        """It is gone."""
        for listener in self._listeners:
            self._tell(listener, listener.endpoint_removed, endpoint)

    def _tell(
        self, listener: EndpointListener, call: Callable[[Endpoint], None], endpoint: Endpoint
    ) -> None:
        try:
            call(endpoint)
        except PLUGIN_FAULTS as error:  # a plugin's fault costs this call only
            self._metrics.plugin_error(_EXTENSION_POINT, listener.type, listener.name)
            self._faults.tell(
                listener.name,
                error,
                extension_point=_EXTENSION_POINT,
                plugin=listener.name,
                type=listener.type,
            )
