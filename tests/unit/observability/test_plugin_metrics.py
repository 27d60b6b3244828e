from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from epp.config.plugin_context import HeldMetrics
from epp.framework.errors import ConfigError
from epp.framework.metric_specs import CounterSpec, GaugeSpec
from epp.observability.metrics import Metrics

SPEED = GaugeSpec(name="acme_speed", help="Speed.", labels=("who",))


def page_of(metrics: Metrics) -> str:
    return b"".join(metrics.exposition()[0]).decode()


def samples(metrics: Metrics, name: str) -> dict[str, float]:
    """Values of `name` by its label `who`; the whole page must be readable."""
    families = text_string_to_metric_families(page_of(metrics))
    return {
        each.labels.get("who", ""): each.value
        for family in families
        for each in family.samples
        if each.name == name
    }


def fail() -> Mapping[tuple[str, ...], float]:
    raise RuntimeError("bug")


@pytest.mark.parametrize(
    "read",
    [
        fail,
        lambda: None,
        lambda: {("a", "b"): 1.0},
        lambda: {("a",): "fast"},
        lambda: {5: 1.0},
    ],
    ids=["raises", "nothing", "labels", "text", "no labels"],
)
def test_a_gauge_that_fails_costs_its_own_values_alone(read: Any) -> None:
    metrics = Metrics()
    metrics.plugins.computed(SPEED, "broken", read)
    metrics.plugins.computed(SPEED, "works", lambda: {("me",): 2.0})

    assert samples(metrics, "acme_speed") == {"me": 2.0}


def test_what_plugins_set_is_written_so_that_it_can_be_read() -> None:
    metrics = Metrics()
    gauge: Any = metrics.plugins.gauge(SPEED)
    gauge.labels(("true",)).set(True)
    gauge.labels(("text",)).set("12")
    gauge.labels(('a"\n\\\ud800',)).set(3)

    assert samples(metrics, "acme_speed") == {"true": 1.0, "text": 12.0, 'a"\n\\?': 3.0}
    with pytest.raises(TypeError, match="strings"):
        gauge.labels((7,))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (GaugeSpec(name="acme-speed", help=""), "a name is letters"),
        (GaugeSpec(name="", help=""), "a name is letters"),
        (GaugeSpec(name="acme_speed", help="", labels=('a"b',)), "label 'a\"b'"),
        (GaugeSpec(name="acme_speed", help="", labels=("le\n",)), "label"),
        (GaugeSpec(name="epp_ready", help=""), "there already"),
        (
            GaugeSpec(name="acme_speed", help="", labels=("a",), expendable=("b",)),
            "expendable 'b' is not one of its labels a",
        ),
    ],
)
def test_a_metric_that_would_cost_the_page_is_refused(spec: GaugeSpec, said: str) -> None:
    metrics = Metrics()

    with pytest.raises(ConfigError, match=re.escape(said)):
        metrics.plugins.gauge(spec)
    with pytest.raises(ConfigError, match=re.escape(said)):
        HeldMetrics(metrics.plugins).computed(spec, "me", dict)


def test_two_plugins_agree_on_what_a_name_means() -> None:
    metrics = Metrics()
    first = metrics.plugins.gauge(SPEED)

    assert metrics.plugins.gauge(GaugeSpec(name="acme_speed", help="Speed.", labels=("who",))) is (
        first
    )
    with pytest.raises(ConfigError, match="described otherwise"):
        metrics.plugins.counter(CounterSpec(name="acme_speed", help="Speed.", labels=("who",)))
    with pytest.raises(ConfigError, match="there already"):
        metrics.plugins.computed(SPEED, "me", dict)


def test_a_plugin_that_is_added_while_a_page_is_written_does_not_break_it() -> None:
    metrics = Metrics()
    for number in range(2000):
        metrics.plugins.gauge(GaugeSpec(name=f"acme_{number}", help="x" * 100)).labels(()).set(1)
    slices, _ = metrics.exposition()
    next(slices)
    next(slices)

    metrics.plugins.gauge(SPEED)

    assert b"acme_1999" in b"".join(slices)
