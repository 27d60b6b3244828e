"""What the code itself says of a plugin type: for people, and for the reference page."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from epp.config.parameter_tables import ParameterRow, parameter_rows
from epp.config.plugin_context import BuildContext, HeldMetrics
from epp.config.plugin_registry import PluginRegistry
from epp.framework import data_layer, flow_control, request_control, request_handling, scheduling
from epp.framework.errors import ConfigError
from epp.framework.metric_specs import MetricSpec
from epp.framework.plugin import Plugin, construct, parameters_of
from epp.observability.metrics import Metrics

_KINDS: Mapping[type[Plugin], str] = {
    request_handling.Parser: "parser",
    scheduling.ProfileHandler: "profile handler",
    scheduling.Filter: "filter",
    scheduling.Scorer: "scorer",
    scheduling.Picker: "picker",
    flow_control.SaturationDetector: "saturation detector",
    request_control.DataProducer: "data producer",
    request_control.Admitter: "admitter",
    request_control.Screener: "screener",
    data_layer.DataSource: "data source",
    data_layer.Extractor: "extractor",
    data_layer.KubernetesExtractor: "Kubernetes extractor",
    data_layer.EndpointDiscovery: "discovery",
}
"""Contracts that say what a plugin is for."""

_HOOKS: Mapping[type[Plugin], str] = {
    request_control.RequestHeader: "request headers",
    request_control.PreRequest: "decisions",
    request_control.ResponseHeader: "response headers",
    request_control.ResponseBody: "response bodies",
    request_control.ResponseProgress: "the progress of responses",
    request_control.ResponseMetadata: "response metadata",
    data_layer.EndpointListener: "the coming and going of endpoints",
}
"""Contracts by which a plugin sees more than its kind does."""

_REFERENCE = re.compile(r"\s*\((?:decisions? \d|\w+ §)[^)]*\)")
"""Where a rule comes from is of no use to who configures it."""
_WORD = re.compile(r"[A-Z][a-z]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A plugin type as it is shown."""

    type: str
    kinds: Sequence[str] = ()
    hooks: Sequence[str] = ()
    """What it sees beside."""
    stability: str = ""
    replaced_by: str = ""
    summary: str = ""
    text: str = ""
    """The rest of the docstring."""
    ignores_parameters: bool = False
    parameters: Sequence[ParameterRow] = ()
    scores: str = ""
    """Of a scorer: what its numbers stand for."""
    reads: Sequence[str] | None = None
    """Names of data types, with default parameters; None: it depends on them."""
    writes: Sequence[str] | None = None
    metrics: Sequence[MetricSpec] = ()
    problem: str = ""
    """Why the type can't be used."""


def describe(plugin_type: str, registry: PluginRegistry) -> Description:
    """What is known of a type; raises `ConfigError` when it can't be used."""
    kind = registry.find(plugin_type)
    docstring = _REFERENCE.sub("", inspect.getdoc(kind) or "")
    summary, _, text = docstring.partition("\n")
    schema = parameters_of(kind)
    reads, writes = _data(kind, plugin_type) if registry.is_bundled(plugin_type) else (None, None)
    return Description(
        type=plugin_type,
        kinds=[word for contract, word in _KINDS.items() if issubclass(kind, contract)]
        or [_other_kind(kind)],
        hooks=[word for contract, word in _HOOKS.items() if issubclass(kind, contract)],
        stability=kind.stability,
        replaced_by=kind.replaced_by,
        summary=kind.summary or summary,
        text=text.strip(),
        ignores_parameters=kind.ignores_parameters,
        parameters=list(parameter_rows(schema)) if schema is not None else [],
        scores=_scores(kind),
        reads=reads,
        writes=writes,
        metrics=kind.metrics,
    )


def describe_all(registry: PluginRegistry) -> Iterator[Description]:
    """Every type; one that can't be used is described by its problem."""
    for plugin_type in registry.types():
        try:
            yield describe(plugin_type, registry)
        except ConfigError as error:
            yield Description(type=plugin_type, kinds=["broken"], problem=str(error))


def _other_kind(kind: type[Plugin]) -> str:
    """What it is to the plugins that refer to it, else that it only sees something."""
    for base in kind.__mro__:
        if inspect.isabstract(base) and base not in _HOOKS:
            return " ".join(_WORD.findall(base.__name__)).lower()
    return "endpoint listener" if issubclass(kind, data_layer.EndpointListener) else "hook"


def _scores(kind: type[Plugin]) -> str:
    """The first paragraph that the scorer itself says of its `score`, on one line."""
    if not issubclass(kind, scheduling.Scorer):
        return ""
    documented = kind.score.__doc__
    if issubclass(kind, scheduling.MetricsScorer):
        documented = kind.score_metrics.__doc__
    text = _REFERENCE.sub("", inspect.cleandoc(documented or ""))
    return " ".join(text.partition("\n\n")[0].split())


def _data(kind: type[Plugin], plugin_type: str) -> tuple[list[str] | None, list[str] | None]:
    """Names of what it reads and writes when it is built with default parameters."""
    context = BuildContext(
        name=plugin_type,
        plugin_type=plugin_type,
        rng=random.Random(0),
        now=lambda: 0.0,
        metrics=HeldMetrics(Metrics().plugins),
        find=_find_nothing,
    )
    try:
        construct(kind, None, context)
    except (ConfigError, ValueError):  # it can't be built without parameters
        return None, None
    return (
        list(dict.fromkeys(wanted.data_type.name for wanted in context.inputs)),
        list(dict.fromkeys(output.data_type.name for output in context.outputs)),
    )


def _find_nothing(name: str, kind: type[Any], field: str) -> NoReturn:
    raise ConfigError(f"{field}: {name!r}, a {kind.__name__}, is not there")
