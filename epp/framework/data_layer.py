"""Contracts of the data layer: sources bring raw data, extractors make values of it.

A source is exactly one of: polling (each endpoint, again and again), a Kubernetes kind, or the
coming and going of endpoints. Extractors are attached to sources in `dataLayer.sources`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from epp.framework.plugin import Plugin

if TYPE_CHECKING:
    from pathlib import Path

    from epp.framework.endpoint import Endpoint


METRICS_PAGE = "a page of metrics"
MODEL_LIST = "a list of models"


class DataSource(Plugin):
    """Where raw data comes from; one of the kinds below."""

    default_extractor: ClassVar[str] = ""
    """Type of the extractor it is usually paired with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTarget:
    """What to GET from one endpoint."""

    scheme: str = "http"
    host: str
    """IP without brackets, or host name."""
    port: int
    path: str
    insecure_skip_verify: bool = True
    ca_cert_path: Path | None = None
    client_cert_path: Path | None = None
    client_key_path: Path | None = None


class PollingSource(DataSource):
    """Asks every endpoint the same thing over HTTP."""

    payload: ClassVar[str] = ""
    """What it brings, such as `METRICS_PAGE`; empty: its extractors know."""
    interval_seconds: float | None = None
    """Pause between polls of one endpoint; None: the process's interval, which adapts."""

    @abstractmethod
    def target(self, endpoint: Endpoint) -> HttpTarget:
        """Where to ask; the answer with status 200 is what its extractors get, as bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesEvent:
    """An object that was added, changed or deleted."""

    deleted: bool
    object: Mapping[str, Any]


class KubernetesSource(DataSource):
    """The objects of one kind in the pool's namespace."""

    group: str = ""
    version: str
    kind: str


class EndpointSource(DataSource):
    """The coming, changing and going of endpoints."""


class Extractor(Plugin):
    """Turns pages of a polling source into metrics or attributes of an endpoint."""

    payload: ClassVar[str] = ""
    """What it reads: a source that brings something else can't be meant; empty: anything."""
    fills_metrics: ClassVar[bool] = False
    """Whether it writes `endpoint.state.metrics`. An endpoint whose metrics are to be read this way
    is stale until they have been (decision 20)."""

    @abstractmethod
    def extract(self, payload: bytes, endpoint: Endpoint, now: float) -> bool:
        """Read one answer; `now` is the monotonic time it came.

        Returns whether anything was read, which makes the endpoint fresh. Raises
        `ExtractionError` for values that are missing or wrong, after having applied the rest.
        """


class ExtractionError(Exception):
    """Some of what was expected on a page is missing or can't be read.

    `applied` tells whether the rest of the page was.
    """

    def __init__(self, message: str, *, applied: bool, count: int = 1) -> None:
        super().__init__(message)
        self.applied = applied
        self.count = count


class KubernetesExtractor(Plugin):
    """Follows the objects of a Kubernetes source."""

    @abstractmethod
    def extract_object(self, event: KubernetesEvent) -> None:
        """Take in one change; raising is logged and costs this change only."""


class EndpointListener(Plugin):
    """Told of endpoints, whether or not it is attached to an endpoint source."""

    def endpoint_added(self, endpoint: Endpoint) -> None:
        """A new endpoint may be picked from now on."""

    def endpoint_replaced(self, endpoint: Endpoint) -> None:
        """An endpoint has other metadata: a new object with the state of the old one."""

    def endpoint_removed(self, endpoint: Endpoint) -> None:
        """It is gone, and its state with it; requests may still be in flight there."""


class EndpointDiscovery(Plugin):
    """Where endpoints come from, instead of Kubernetes (`dataLayer.discovery`)."""

    path: Path
    """File in the form of file-discovery."""
    watch_file: bool = False
