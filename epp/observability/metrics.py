"""The metrics of one process: what happened goes in, a page for Prometheus comes out.

Every metric is one of our own light instruments (see `instruments`); the registry of
prometheus_client is only for collectors of others, such as the one of CPU, memory and files.
Nothing here is global, so a process may hold several of these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from epp.framework.endpoint import Endpoint
from epp.framework.request import TerminationCause
from epp.observability import exposition
from epp.observability import metric_catalogue as catalogue
from epp.observability.answer_metrics import AnswerMetrics
from epp.observability.cluster_metrics import ClusterMetrics
from epp.observability.connection_metrics import ConnectionMetrics
from epp.observability.deprecated_twins import TwinFamily
from epp.observability.exposition import Readable
from epp.observability.file_metrics import FileMetrics
from epp.observability.instruments import AnyFamily, Computed, FamilySet
from epp.observability.plugin_metrics import PluginMetrics
from epp.observability.pool_metrics import PoolMetrics
from epp.observability.request_metrics import RequestMetrics
from epp.observability.request_series import RequestFamilies
from epp.observability.scrape_metrics import ScrapeMetrics
from epp.observability.stream_metrics import StreamMetrics

MOST_LEFT = 256
"""Endpoints that are gone and still have series."""


class Metrics:
    """Counts for one Endpoint Picker. Not for other threads than the event loop's."""

    def __init__(
        self,
        *,
        commit: str = "",
        build_ref: str = "",
        deprecated_twins: bool = True,
        stream_metrics: bool = False,
        unmatched_pods: Callable[[], int] = lambda: 0,
        tasks: Callable[[], int] = lambda: 0,
        lost_spans: Callable[[], Mapping[str, int]] = dict,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        build = FamilySet(catalogue.GAUGE_UNDERFLOWS)
        self._requests = RequestFamilies(build)
        self.request_processing_seconds = build.histogram(
            catalogue.REQUEST_PROCESSING_DURATION
        ).labels(())
        self.response_processing_seconds = build.histogram(
            catalogue.RESPONSE_PROCESSING_DURATION
        ).labels(())
        self._scheduler_seconds = build.histogram(catalogue.SCHEDULER_E2E).labels(())
        self._attempts = build.counter(catalogue.SCHEDULER_ATTEMPTS)
        self._plugin_seconds = build.histogram(catalogue.PLUGIN_DURATION)
        self._plugin_errors = build.counter(catalogue.PLUGIN_ERRORS)
        self._plugins_off = build.counter(catalogue.PLUGINS_SWITCHED_OFF)
        build.gauge(catalogue.INFO).labels((commit, build_ref)).set(1)
        self.pool = PoolMetrics(build)
        self.scrapes = ScrapeMetrics(build)
        unseen = FamilySet(catalogue.GAUGE_UNDERFLOWS)
        self.streams = StreamMetrics(build if stream_metrics else unseen)
        """Observer of the ext_proc port; what it counts is shown only with `stream_metrics`."""
        self.answers = AnswerMetrics(build)
        terminations = build.counter(catalogue.TERMINATIONS)
        self._terminations = {cause: terminations.labels((cause,)) for cause in TerminationCause}
        self._fail_open = build.counter(catalogue.FAIL_OPEN)
        self._overload = build.counter(catalogue.OVERLOAD)
        self.connections = ConnectionMetrics(build)
        self._ignored_messages = build.counter(catalogue.IGNORED_MESSAGES)
        self._response_phase_errors = build.counter(catalogue.RESPONSE_PHASE_ERRORS).labels(())
        self.files = FileMetrics(build)
        self.requests_in_flight = build.gauge(catalogue.REQUESTS_IN_FLIGHT).labels(())
        self.buffered_bytes = build.gauge(catalogue.BUFFERED_BYTES).labels(())
        self.event_loop_lag_seconds = build.gauge(catalogue.EVENT_LOOP_LAG).labels(())
        self.ready = build.gauge(catalogue.READY).labels(())
        self._endpoint_errors = build.counter(catalogue.ENDPOINT_ERRORS)
        self._endpoint_ejections = build.counter(catalogue.ENDPOINT_EJECTIONS).labels(())
        self._ejected: Callable[[], int] = lambda: 0
        self.cluster = ClusterMetrics(build, now)
        self._left: set[tuple[str, ...]] = set()
        self._deprecated_twins = deprecated_twins
        self.plugins = PluginMetrics(
            FamilySet(catalogue.GAUGE_UNDERFLOWS),
            self._requests.models.admit,
            taken=frozenset(family.spec.name for family in build.families),
        )
        """Series that configured plugins own."""
        self._start_at_zero()

        self._families = self._shown(
            build.families,
            Computed(catalogue.UNMATCHED_PODS, lambda: {(): unmatched_pods()}),
            Computed(catalogue.EJECTED_ENDPOINTS, lambda: {(): self._ejected()}),
            Computed(catalogue.ASYNCIO_TASKS, lambda: {(): tasks()}),
            Computed(
                catalogue.SPANS_LOST,
                lambda: {(reason,): count for reason, count in lost_spans().items()},
            ),
        )
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

    def request(
        self, model: str, target_model: str, fairness_id: str, priority: int
    ) -> RequestMetrics:
        """The measurements of one request; `model` is the one the client asked for."""
        series = self._requests.series(model, target_model, fairness_id, priority)
        return RequestMetrics(series)

    def scheduled(self, seconds: float, target_model: str, endpoint: Endpoint | None) -> None:
        """The scheduler took `seconds` and picked `endpoint`; None: it failed."""
        self._scheduler_seconds.observe(seconds)
        model = self._requests.models.admit(target_model)
        if endpoint is None:
            values = ("failure", model, "", "", "")
        else:
            port = str(endpoint.port)
            values = ("success", model, endpoint.name, endpoint.namespace, port)
        self._attempts.labels(values).inc()

    def plugin_timer(
        self, extension_point: str, plugin_type: str, plugin_name: str
    ) -> Callable[[float], None]:
        """What is told the seconds of each call of a plugin; asked for once."""
        return self._plugin_seconds.labels((extension_point, plugin_type, plugin_name)).observe

    def plugin_error(self, extension_point: str, plugin_type: str, plugin_name: str) -> None:
        """One call of a plugin failed."""
        self._plugin_errors.labels((extension_point, plugin_type, plugin_name)).inc()

    def plugin_switched_off(self, plugin_type: str, plugin_name: str) -> None:
        """A plugin took too long again and again and is not called any more."""
        self._plugins_off.labels((plugin_type, plugin_name)).inc()

    def endpoint_failed(self, endpoint: Endpoint) -> None:
        """A request was answered with an error by `endpoint`, or not at all."""
        self._endpoint_errors.labels(_names(endpoint)).inc()

    def endpoint_ejected(self) -> None:
        """An endpoint answered with errors again and again and gets no requests for a while."""
        self._endpoint_ejections.inc()

    def show_ejected(self, count: Callable[[], int]) -> None:
        """Ask `count`, whenever the page is written, how many endpoints are ejected."""
        self._ejected = count

    def terminated(self, cause: TerminationCause) -> None:
        """A request that had an endpoint is over."""
        self._terminations[cause].inc()

    def failed_open(self, reason: str) -> None:
        """A request went on without a regular decision."""
        self._fail_open.labels((reason,)).inc()

    def overloaded(self, signal: str, outcome: str) -> None:
        """The limit `signal` was exceeded, and a request was cut short in the way `outcome`."""
        self._overload.labels((signal, outcome)).inc()

    def message_ignored(self, kind: str) -> None:
        """The gateway sent a message that means nothing where it came."""
        self._ignored_messages.labels((kind,)).inc()

    def response_phase_error(self) -> None:
        """Handling a response failed; its bytes went through unchanged."""
        self._response_phase_errors.inc()

    def endpoints_left(self, endpoints: Iterable[Endpoint]) -> None:
        """These are gone. What they were picked for is forgotten with many others at a time: the
        series of pods that come and go would fill the page, until none is left for new ones."""
        self._left.update(map(_names, endpoints))
        if len(self._left) >= MOST_LEFT:
            left, self._left = self._left, set()
            self._attempts.forget(lambda values: values[2:] in left)
            self._endpoint_errors.forget(left.__contains__)

    def exposition(self, accept: str = "") -> tuple[Iterator[bytes], str]:
        """The page in slices of about 64 KiB, and its content type, as an Accept header asks."""
        if exposition.wants_openmetrics(accept):
            return self._openmetrics(), exposition.OPENMETRICS
        return self._text(), exposition.TEXT

    def _text(self) -> Iterator[bytes]:
        for text in exposition.write_families(self._readable(), openmetrics=False):
            yield text.encode(errors="replace")
        yield generate_latest(self.registry)

    def _openmetrics(self) -> Iterator[bytes]:
        for text in exposition.write_families(self._readable(), openmetrics=True):
            yield text.encode(errors="replace")
        # Last, since it ends with OpenMetrics' own end mark.
        yield generate_openmetrics(self.registry)  # type: ignore[no-untyped-call]  # its gap

    def _readable(self) -> Iterator[Readable]:
        yield from self._families
        yield from self.plugins.families(deprecated_twins=self._deprecated_twins)

    def _shown(self, counted: Sequence[AnyFamily], *computed: Readable) -> list[Readable]:
        cluster, pool = self.cluster.last_contact, self.pool.queue_sizes
        shown: list[Readable] = [*counted, *computed, cluster, pool]
        if self._deprecated_twins:
            shown.append(self.pool.queue_sizes_twin)
            shown += [
                TwinFamily(family, twin)
                for family in counted
                if (twin := family.spec.twin) is not None
            ]
        return shown

    def _start_at_zero(self) -> None:
        # A rate over a counter needs its zero; that is possible where the values are known.
        for reason in ("deadline", "internal", "not-synced", "overload"):
            self._fail_open.labels((reason,))
        for signal in ("streams", "buffered-bytes", "loop-lag"):
            for outcome in ("picked", "rejected"):
                self._overload.labels((signal, outcome))


def _names(endpoint: Endpoint) -> tuple[str, str, str]:
    """The labels an endpoint is known by."""
    return endpoint.name, endpoint.namespace, str(endpoint.port)
