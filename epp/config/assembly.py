"""From a document to plugins that are built, wired and ready to be run."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epp.config.blueprint import Blueprint
from epp.config.data_layer_section import complete_discovery, complete_sources
from epp.config.document import Document
from epp.config.findings import Findings
from epp.config.instances import Instance, Instances, Surroundings
from epp.config.parsers_and_detector import complete_detector, complete_parsers
from epp.config.plugin_context import HeldMetrics
from epp.config.plugin_registry import PluginRegistry
from epp.config.producer_parameters import warn_of_idle_names
from epp.config.replaced_engines import warn_of_replaced_engines
from epp.config.request_plan import build_plan
from epp.config.scheduling import complete_scheduling
from epp.config.wiring import create_missing_producers, execution_order, wire
from epp.framework.data_layer import DataSource, EndpointDiscovery, EndpointListener

if TYPE_CHECKING:
    from epp.framework.plugin import Plugin
    from epp.observability.metrics import Metrics
    from epp.request_control.plan import RequestPlan


ALLOWING_FLAG = (
    "--allow-experimental-plugins, a flag of `epp serve`, `epp standalone` and `epp config check`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What a configuration comes to."""

    plugins: Mapping[str, Plugin]
    """By name, in the order of the document, what was added last."""
    plan: RequestPlan
    sources: Sequence[tuple[DataSource, Sequence[Plugin]]]
    """Each with its extractors, in the order of the document."""
    discovery: EndpointDiscovery | None
    """Where endpoints come from; None: where the process's flags say."""
    endpoint_listeners: Sequence[EndpointListener]
    """To be told of every endpoint."""
    warnings: Sequence[str]
    """What may not be meant, a line each."""
    blueprint: Blueprint


def assemble(
    document: Document,
    registry: PluginRegistry,
    *,
    metrics: Metrics,
    rng: random.Random,
    allow_experimental: bool = False,
    allowed_with: str = ALLOWING_FLAG,
    now: Callable[[], float] = time.monotonic,
    previous: Assembly | None = None,
    accept: Callable[[Assembly], None] = lambda _: None,
) -> Assembly:
    """Build what `document` says; raises one `ConfigError` with everything that is wrong.

    Plugins of `previous` that would be built and wired the same are taken over with what they
    have learnt. Nothing of `previous` is touched before `accept`, which may raise too, has
    returned; its inputs are not bound yet.
    """
    seed = rng.getrandbits(64)
    reusable = {i.name: i for i in previous.blueprint.instances} if previous else {}
    while True:
        findings = Findings(list(document.problems), list(document.warnings))
        around = Surroundings(
            registry=registry,
            metrics=HeldMetrics(metrics.plugins),
            seed=seed,
            now=now,
            allow_experimental=allow_experimental,
            allowed_with=allowed_with,
        )
        instances = Instances(document.plugins, around, findings, reusable)
        blueprint = _complete(document, instances, registry)
        findings.raise_problems(document.what)
        rewired = _rewired(blueprint, reusable)
        if not rewired:
            break
        for name in rewired:
            del reusable[name]
    assembly = _assembly(blueprint, build_plan(blueprint, metrics, now), findings)
    accept(assembly)
    _commit(blueprint, around.metrics, metrics, previous)
    return assembly


def _complete(document: Document, instances: Instances, registry: PluginRegistry) -> Blueprint:
    scheduling = complete_scheduling(document, instances)
    parsers = complete_parsers(document, instances, registry.types())
    detector = complete_detector(document, instances)
    sources = complete_sources(document, instances)
    discovery = complete_discovery(document, instances)
    create_missing_producers(instances)
    links = wire(instances)
    warn_of_replaced_engines(instances.all, links, instances.findings)
    warn_of_idle_names(instances)
    return Blueprint(
        instances=instances.all,
        scheduling=scheduling,
        parsers=parsers,
        detector=detector,
        sources=sources,
        discovery=discovery,
        links=links,
        order=execution_order(links, instances),
        feature_gates=document.feature_gates,
    )


def _rewired(blueprint: Blueprint, reusable: Mapping[str, Instance]) -> set[str]:
    """Names of plugins that were taken over but would read from others than before."""
    return {
        link.reader.name
        for link in blueprint.links
        if _is_reused(link.reader, reusable) and link.key != link.input.key
    }


def _is_reused(instance: Instance, reusable: Mapping[str, Instance]) -> bool:
    old = reusable.get(instance.name)
    return old is not None and old.plugin is instance.plugin


def _commit(
    blueprint: Blueprint, held: HeldMetrics, metrics: Metrics, previous: Assembly | None
) -> None:
    """From here on the new configuration counts: bind inputs, hand gauges over."""
    for link in blueprint.links:
        if link.producer is not None:
            link.input.bind(link.producer.name)
    current = {instance.name: instance.plugin for instance in blueprint.instances}
    for name, plugin in previous.plugins.items() if previous else ():
        if current.get(name) is not plugin:
            metrics.plugins.forget(name)
    held.release()


def _assembly(blueprint: Blueprint, plan: RequestPlan, findings: Findings) -> Assembly:
    discovery = blueprint.discovery.plugin if blueprint.discovery else None
    return Assembly(
        plugins={instance.name: instance.plugin for instance in blueprint.instances},
        plan=plan,
        sources=[
            (source.instance.plugin, [extractor.plugin for extractor in source.extractors])
            for source in blueprint.sources
            if isinstance(source.instance.plugin, DataSource)
        ],
        discovery=discovery if isinstance(discovery, EndpointDiscovery) else None,
        endpoint_listeners=[
            i.plugin for i in blueprint.instances if isinstance(i.plugin, EndpointListener)
        ],
        warnings=findings.warnings,
        blueprint=blueprint,
    )
