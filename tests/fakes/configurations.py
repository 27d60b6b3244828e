"""Documents assembled the way the process does it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from importlib.metadata import EntryPoint

import pytest

from epp.config.assembly import Assembly, assemble
from epp.config.loader import load_config
from epp.config.plugin_registry import GROUP, PluginRegistry
from epp.framework.errors import ConfigError
from epp.observability.metrics import Metrics
from epp.plugins.catalogue import BUNDLED


class Distribution:
    """What an entry point tells of where it comes from."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.metadata = {"Name": name}


def offered(plugin_type: str, value: str, by: str = "acme") -> EntryPoint:
    """An entry point of the distribution `by`."""
    point = EntryPoint(plugin_type, value, GROUP)
    vars(point)["dist"] = Distribution(by)
    return point


def registry_with(types: Mapping[str, str]) -> PluginRegistry:
    """The bundled types and strangers' classes in `tests.fakes.plugins.configured`."""
    return PluginRegistry(
        BUNDLED,
        [offered(name, f"tests.fakes.plugins.configured:{kind}") for name, kind in types.items()],
    )


def assembled(
    text: str,
    *,
    registry: PluginRegistry | None = None,
    allow_experimental: bool = False,
    previous: Assembly | None = None,
    metrics: Metrics | None = None,
) -> Assembly:
    """What `text` comes to."""
    return assemble(
        load_config(text),
        registry or PluginRegistry(),
        metrics=metrics or Metrics(),
        rng=random.Random(1),
        allow_experimental=allow_experimental,
        previous=previous,
    )


def refusal(text: str, *, registry: PluginRegistry | None = None) -> list[str]:
    """The lines that say what is wrong with `text`."""
    with pytest.raises(ConfigError) as caught:
        assembled(text, registry=registry)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]
