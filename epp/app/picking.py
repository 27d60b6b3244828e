"""How this process picks: its configuration, what it reads of endpoints, and reloads of both."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from epp.config.assembly import Assembly, assemble
from epp.config.loader import MAX_BYTES, load_config, read_config
from epp.config.plugin_registry import PluginRegistry
from epp.config.resolved import resolved_text
from epp.config.summary import profile_lines
from epp.data_layer.connection_budget import connections_within
from epp.data_layer.data_layer import DataLayer
from epp.data_layer.settings import DataLayerSettings
from epp.framework.errors import ConfigError
from epp.framework.request_handling import Parser
from epp.plugins.producers.approx_prefix_cache import ApproxPrefixCacheProducer
from epp.support.file_watch import watch_file
from epp.support.open_files import open_files_limit
from epp.support.plugin_faults import PLUGIN_FAULTS
from epp.support.regular_files import read_regular_file

if TYPE_CHECKING:
    from epp.app.options import ServeOptions
    from epp.config.document import Document
    from epp.datastore.datastore import Datastore
    from epp.framework.data_layer import EndpointDiscovery
    from epp.observability.metrics import Metrics
    from epp.request_control.plan import RequestPlan

log = structlog.get_logger(__name__)

NO_STATE = "plugin does not support state collection"


class Picking:
    """Plugins and data layer of one process, built from its configuration.

    A configuration file that changes is checked as a whole; then everything changes over at once,
    and plugins that did not change keep what they have learnt. One that is wrong changes nothing.
    """

    def __init__(
        self,
        options: ServeOptions,
        datastore: Datastore,
        metrics: Metrics,
        *,
        rng: random.Random,
    ) -> None:
        self._options = options
        self._metrics = metrics
        self._rng = rng
        self._registry = PluginRegistry.installed()
        self._use: Callable[[RequestPlan], None] = lambda _: None
        # Before it is read: a change that falls in between is a change, too.
        self._content = _content(options.config_file)
        self._assembly = self._assemble(self._read(), previous=None)
        self._document: tuple[Assembly, str] | None = None
        self.problem: str | None = None
        """Why the configuration file as it is now is not in force."""
        self.data_layer = DataLayer(
            datastore,
            self._assembly.sources,
            self._assembly.endpoint_listeners,
            metrics=metrics,
            settings=DataLayerSettings(
                refresh_seconds=options.refresh_metrics_interval,
                idle_refresh_seconds=max(
                    options.idle_metrics_interval, options.refresh_metrics_interval
                ),
                gauge_refresh_seconds=options.refresh_prometheus_metrics_interval,
                fresh_seconds=options.metrics_staleness_threshold,
                max_connections=connections_within(open_files_limit()),
            ),
            rng=rng,
        )

    @property
    def plan(self) -> RequestPlan:
        """What requests meet, as of now."""
        return self._assembly.plan

    @property
    def discovery(self) -> EndpointDiscovery | None:
        """Where endpoints come from if the configuration says so."""
        return self._assembly.discovery

    @property
    def profiles(self) -> Sequence[str]:
        """What is picked by, in a line for each profile."""
        return profile_lines(self._assembly.blueprint)

    @property
    def parsers(self) -> Sequence[Parser]:
        """Parsers in force."""
        return [plugin for plugin in self._assembly.plugins.values() if isinstance(plugin, Parser)]

    @property
    def source(self) -> str:
        """Where the configuration is from."""
        if self._options.config_file is not None:
            return str(self._options.config_file)
        return "--config-text" if self._options.config_text else "built-in default"

    def document(self) -> str:
        """The configuration in force as YAML, everything filled in."""
        if self._document is None or self._document[0] is not self._assembly:
            self._document = (self._assembly, resolved_text(self._assembly))
        return self._document[1]

    def prefix_shares(self) -> Mapping[str, float] | None:
        """By namespace and name, how much of all that is believed to be cached is where.

        Of the first plugin that keeps count; None without one.
        """
        for plugin in self._assembly.plugins.values():
            if isinstance(plugin, ApproxPrefixCacheProducer):
                return plugin.shares()
        return None

    def plugin_state(self) -> Mapping[str, object]:
        """What `/debug/plugins/state` shows of each plugin."""
        return {
            plugin.name: {"name": plugin.name, "type": plugin.type, **_state(plugin.dump_state)}
            for plugin in self._assembly.plugins.values()
        }

    async def run(self, use: Callable[[RequestPlan], None]) -> None:
        """Follow the configuration file for ever; `use` is called with every new plan."""
        self._use = use
        path = self._options.config_file
        if path is None:
            return
        async with aclosing(watch_file(path)) as changes:
            async for _ in changes:
                content = await asyncio.to_thread(_content, path)
                if content != self._content:
                    self._content = content
                    await self._reload()

    async def _reload(self) -> None:
        try:
            document = await asyncio.to_thread(self._read)
            assembly = self._assemble(document, previous=self._assembly)
        except ConfigError as error:
            self._metrics.files.config_reloaded("failure")
            if str(error) != self.problem:
                log.error("configuration refused, the last good one stays", problem=str(error))
            self.problem = str(error)
            return
        self._assembly = assembly
        self.data_layer.reconfigure(assembly.sources, assembly.endpoint_listeners)
        self._use(assembly.plan)
        self._metrics.files.config_reloaded("success")
        self.problem = None
        log.info("configuration in force", file=str(self._options.config_file))

    def _read(self) -> Document:
        if self._options.config_file is not None:
            return read_config(self._options.config_file)
        return load_config(self._options.config_text, "--config-text")

    def _assemble(self, document: Document, previous: Assembly | None) -> Assembly:
        assembly = assemble(
            document,
            self._registry,
            metrics=self._metrics,
            rng=self._rng,
            allow_experimental=self._options.allow_experimental_plugins,
            previous=previous,
            accept=partial(_refuse_other_endpoints, previous),
        )
        told = previous.warnings if previous else ()
        for warning in assembly.warnings:
            if warning not in told:
                log.warning("configuration is odd", problem=warning)
        return assembly


def _refuse_other_endpoints(previous: Assembly | None, assembly: Assembly) -> None:
    """Raise `ConfigError` if endpoints would come from elsewhere than before."""
    if previous is not None and _source_of_endpoints(assembly) != _source_of_endpoints(previous):
        raise ConfigError("dataLayer.discovery can't change while the process runs")


def _source_of_endpoints(assembly: Assembly) -> Path | None:
    return None if assembly.discovery is None else assembly.discovery.path


def _content(path: Path | None) -> bytes | None:
    """The beginning of a file, as much as a configuration may have; None: it can't be read."""
    if path is None:
        return None
    try:
        return read_regular_file(path, MAX_BYTES + 1)
    except OSError:
        return None


def _state(dump: Callable[[], object]) -> Mapping[str, object]:
    try:
        state = dump()
    except PLUGIN_FAULTS as error:  # a plugin's own page must not take the others along
        return {"message": f"{type(error).__name__} while collecting the state"}
    return {"message": NO_STATE} if state is None else {"state": state}
