"""Whether scrapes of the metrics port carry a token, and who is asked about it."""

from __future__ import annotations

from epp.admin.access import Access
from epp.admin.metrics_guard import MetricsGuard
from epp.app.cluster import Cluster
from epp.app.options import NOBODY_TO_ASK, ServeOptions
from epp.framework.errors import ConfigError
from epp.observability.metrics import Metrics


def metrics_guard(
    options: ServeOptions, cluster: Cluster | None, metrics: Metrics
) -> MetricsGuard | None:
    """What stands before the metrics port; None: nothing. Raises `ConfigError`."""
    if cluster is not None and options.guards_metrics:
        access = Access(cluster.access_reviews())
        return MetricsGuard(access, metrics.cluster.scrape_refused)
    if cluster is None and options.metrics_endpoint_auth:
        raise ConfigError(NOBODY_TO_ASK)
    return None
