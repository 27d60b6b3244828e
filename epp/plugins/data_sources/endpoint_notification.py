"""The coming and going of endpoints (datalayer §6.4)."""

from __future__ import annotations

from epp.framework.data_layer import EndpointSource


class EndpointNotificationSource(EndpointSource):
    """Tells its extractors of endpoints that come, change and go."""

    type = "endpoint-notification-source"
    ignores_parameters = True
