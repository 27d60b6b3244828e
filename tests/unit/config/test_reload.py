"""What of one configuration lives on in the next."""

from __future__ import annotations

import random

import pytest

from epp.config.assembly import Assembly, assemble
from epp.config.loader import load_config
from epp.framework.errors import ConfigError
from epp.observability.metrics import Metrics
from tests.fakes.configurations import assembled, registry_with
from tests.fakes.metrics.samples import page, value_of
from tests.fakes.plugins.configured import CountingColourScorer

REGISTRY = registry_with(
    {
        "colour-scorer": "ColourScorer",
        "counting-scorer": "CountingColourScorer",
        "colour-producer": "ColourProducer",
        "friend": "Friend",
    }
)


def reloaded(before: Assembly, text: str, metrics: Metrics | None = None) -> Assembly:
    return assembled(text, registry=REGISTRY, previous=before, metrics=metrics)


def kept(before: Assembly, after: Assembly) -> set[str]:
    return {name for name, plugin in after.plugins.items() if before.plugins.get(name) is plugin}


def test_a_weight_that_changes_keeps_every_plugin() -> None:
    text = (
        "plugins: [{type: prefix-cache-scorer}]\nschedulingProfiles:\n"
        "- {name: default, plugins: [{pluginRef: prefix-cache-scorer, weight: %d}]}"
    )
    before = assembled(text % 1, registry=REGISTRY)

    after = reloaded(before, text % 5)

    assert kept(before, after) == set(before.plugins) == set(after.plugins)
    assert after.plan.scheduler is not before.plan.scheduler
    assert after.blueprint.scheduling.profiles[0].members[0].weight == 5


def test_a_parameter_that_changes_costs_that_plugin_only() -> None:
    text = "plugins: [{type: queue-scorer}, {type: max-score-picker, parameters: {%s}}]"
    before = assembled(text % "maxNumOfEndpoints: 1", registry=REGISTRY)

    after = reloaded(before, text % "maxNumOfEndpoints: 2")

    assert set(after.plugins) - kept(before, after) == {"max-score-picker"}


def test_a_default_that_is_written_out_is_no_change() -> None:
    before = assembled("plugins: [{type: max-score-picker}]")

    after = reloaded(
        before, "plugins: [{type: max-score-picker, parameters: {maxNumOfEndpoints: 1}}]"
    )

    assert "max-score-picker" in kept(before, after)


def test_another_name_or_type_is_another_plugin() -> None:
    before = assembled("plugins: [{type: queue-scorer, name: a}]")

    after = reloaded(before, "plugins: [{type: load-aware-scorer, name: a}]")

    assert "a" not in kept(before, after)


def test_a_reader_of_another_producer_is_built_anew() -> None:
    text = (
        "plugins: [{type: colour-scorer}, {type: queue-scorer}, {type: colour-producer, name: %s}]"
    )
    before = assembled(text % "red", registry=REGISTRY)

    after = reloaded(before, text % "blue")

    assert set(after.plugins) - kept(before, after) == {"colour-scorer", "blue"}
    assert next(link.input.key for link in after.blueprint.links) == "Colour/blue"
    assert next(link.input.key for link in before.blueprint.links) == "Colour/red"


def test_a_plugin_that_refers_to_a_new_one_is_built_anew() -> None:
    text = (
        "plugins: [{type: friend, name: a, parameters: {friend: b}},"
        " {type: friend, name: b, parameters: {friend: '%s'}}, {type: friend, name: c}]"
    )
    before = assembled(text % "", registry=REGISTRY)

    after = reloaded(before, text % "c")

    assert set(after.plugins) - kept(before, after) == {"a", "b"}


def test_computed_gauges_follow_the_plugin_and_go_with_it() -> None:
    metrics = Metrics()
    text = "plugins: [{type: counting-scorer, parameters: {strength: %d}}, {type: colour-producer}]"
    before = assembled(text % 1, registry=REGISTRY, metrics=metrics)
    after = reloaded(before, text % 2, metrics)
    plugin = after.plugins["counting-scorer"]
    assert isinstance(plugin, CountingColourScorer)

    plugin.count = 7
    assert value_of(metrics, "acme_count") == 7
    reloaded(after, "plugins: [{type: queue-scorer}]", metrics)
    assert "acme_count " not in page(metrics)


def test_a_configuration_that_is_refused_changes_nothing() -> None:
    metrics = Metrics()
    text = "plugins: [{type: counting-scorer, parameters: {strength: %s}}, {type: colour-producer}]"
    before = assembled(text % 1, registry=REGISTRY, metrics=metrics)
    plugin = before.plugins["counting-scorer"]
    assert isinstance(plugin, CountingColourScorer)
    plugin.count = 7
    keys = [link.input.key for link in before.blueprint.links]

    for bad in (text % 2 + "\nkind: Other", text % "many"):
        with pytest.raises(ConfigError):
            reloaded(before, bad, metrics)

    assert value_of(metrics, "acme_count") == 7
    assert [link.input.key for link in before.blueprint.links] == keys


def test_whoever_starts_a_configuration_may_refuse_it_before_it_takes_over() -> None:
    metrics = Metrics()
    text = "plugins: [{type: counting-scorer, parameters: {strength: %d}}, {type: colour-producer}]"
    before = assembled(text % 1, registry=REGISTRY, metrics=metrics)
    plugin = before.plugins["counting-scorer"]
    assert isinstance(plugin, CountingColourScorer)
    plugin.count = 7

    def refuse(assembly: Assembly) -> None:
        assert assembly.plugins["counting-scorer"] is not plugin
        raise ConfigError("not now")

    with pytest.raises(ConfigError, match="not now"):
        assemble(
            load_config(text % 2),
            REGISTRY,
            metrics=metrics,
            rng=random.Random(1),
            previous=before,
            accept=refuse,
        )
    assert value_of(metrics, "acme_count") == 7
