"""What is wrong with a parameter is told where it stands, whatever plugin has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from epp.config.document import PluginEntry
from epp.config.findings import MOST_HINTS, Findings
from epp.config.parameter_tables import ParameterRow, parameter_rows
from epp.config.parameters import ParametersRefused, read_parameters
from epp.config.plugin_registry import PluginRegistry
from epp.framework.plugin import parameters_of
from epp.plugins.catalogue import BUNDLED

REGISTRY = PluginRegistry()


def rows_of(plugin_type: str) -> list[ParameterRow]:
    kind = REGISTRY.find(plugin_type)
    schema = parameters_of(kind)
    return [] if schema is None or kind.ignores_parameters else list(parameter_rows(schema))


PLUGIN_TYPES = [plugin_type for plugin_type in BUNDLED if rows_of(plugin_type)]


def problems_of(plugin_type: str, given: Mapping[str, Any]) -> list[str]:
    findings = Findings()
    entry = PluginEntry(name="p", type=plugin_type, path="plugins[0]", parameters=given)
    with pytest.raises(ParametersRefused):
        read_parameters(entry, REGISTRY.find(plugin_type), findings)
    return findings.problems


def with_value(path: str, value: object) -> dict[str, Any]:
    """Parameters that say nothing but `value`, at the path of a row."""
    first, _, rest = path.partition(".")
    inner = with_value(rest, value) if rest else value
    return {first.removesuffix("[]"): [inner]} if first.endswith("[]") else {first: inner}


def told_of(plugin_type: str, path: str, value: object) -> str:
    """What is said of a value, at the path of a row."""
    problems = problems_of(plugin_type, with_value(path, value))
    where = f"plugins[0].parameters.{path.replace('[]', '[0]')}: "
    told = [line for line in problems if line.startswith(where)]
    assert told, (where, problems)
    return told[0].removeprefix(where)


@pytest.mark.parametrize("plugin_type", PLUGIN_TYPES)
def test_a_value_of_the_wrong_type_is_told_with_what_is_allowed(plugin_type: str) -> None:
    for row in rows_of(plugin_type):
        wrong: object = {} if row.type.startswith("list") else []

        assert told_of(plugin_type, row.path, wrong).startswith(f"{wrong} is not allowed; ")


@pytest.mark.parametrize("plugin_type", PLUGIN_TYPES)
def test_a_parameter_that_is_misspelt_is_told_with_the_right_one(plugin_type: str) -> None:
    for row in rows_of(plugin_type):
        name = row.path.rpartition(".")[2]

        told = told_of(plugin_type, f"{row.path}x", "v")

        assert told == f"unknown field; did you mean {name!r}?"


@pytest.mark.parametrize("plugin_type", PLUGIN_TYPES)
def test_a_number_without_end_is_told_with_how_large_it_may_be(plugin_type: str) -> None:
    for row in rows_of(plugin_type):
        if row.type not in ("integer", "number"):
            continue

        told = told_of(plugin_type, row.path, 10**400)

        assert re.search(r"to 9223372036854775807|less than or equal to|a finite number", told)


def test_a_list_that_is_empty_is_told_with_how_many_there_must_be() -> None:
    assert told_of("utilization-filter", "conditions", []) == (
        "0 entries are not allowed; at least 1"
    )
    assert told_of("by-label", "label", "") == '"" is not allowed; at least 1 character'


@pytest.mark.parametrize(
    ("plugin_type", "path"),
    [
        ("session-affinity-scorer", "encodedEndpointHeaderConfig.header"),
        ("session-affinity-filter", "sessionIdConfig.sources[].header"),
        ("header-label-affinity-scorer", "headerName"),
        ("header-profile-handler", "headerName"),
        ("session-id-producer", "headerName"),
        ("agent-identity", "additionalSessionHeaders[]"),
        ("disaggregatedset-rollout-screener", "headerSelectors[].headerName"),
    ],
)
@pytest.mark.parametrize("name", ["x session", "x-session:", "x\nsession", "x-séssion"])
def test_what_no_header_can_be_called_is_refused(plugin_type: str, path: str, name: str) -> None:
    told = told_of(plugin_type, path, name)

    assert "is not allowed; a name of a header: letters, digits" in told


@pytest.mark.parametrize(
    ("plugin_type", "path"),
    [
        ("inflight-load-producer", "outputRatio"),
        ("concurrency-detector", "headroom"),
        ("expected-work-scorer", "alpha"),
        ("expected-work-scorer", "kappa"),
        ("expected-work-scorer", "adapterLoadTokens"),
        ("expected-work-scorer", "adapterSlotTokens"),
    ],
)
def test_a_factor_that_makes_everything_endless_is_refused(plugin_type: str, path: str) -> None:
    assert "is not allowed; less than or equal to 1000000" in told_of(plugin_type, path, 1e300)


def test_a_range_that_no_number_spans_is_refused() -> None:
    range_path = "algorithm.normalization.fixedRange"

    told = told_of("endpoint-attribute-scorer", range_path, {"min": -1e308, "max": 1e308})

    assert told.endswith("is not allowed; from min -1e+308 to max 1e+308 is too far")


@pytest.mark.parametrize("name", ["autoTune", "blockSizeTokens", "lruCapacityPerServer"])
def test_a_parameter_that_another_plugin_has_is_told_with_that(name: str) -> None:
    assert told_of("prefix-cache-scorer", name, 1) == (
        "unknown field; it is one of approx-prefix-cache-producer"
    )
    assert name in {row.path for row in rows_of("approx-prefix-cache-producer")}


@pytest.mark.parametrize(
    ("plugin_type", "path"),
    [
        ("session-affinity-scorer", "encodedEndpointHeaderConfig.header"),
        ("disaggregatedset-rollout-screener", "headerSelectors[].headerName"),
    ],
)
def test_headers_of_responses_are_none_of_those_http_itself_has(
    plugin_type: str, path: str
) -> None:
    told = told_of(plugin_type, path, ":status")

    assert told == '":status" is not allowed; a name of a header that can be set: without a colon'


def test_of_hundreds_of_mistakes_what_was_meant_is_told_of_the_first_ones() -> None:
    problems = problems_of("latency-scorer", {f"ttftWeight{number}": 1 for number in range(120)})

    hinted = [line for line in problems if line.endswith("did you mean 'ttftWeight'?")]
    assert hinted == problems[:MOST_HINTS]
    assert problems[-1] == "plugins[0].parameters.ttftWeight119: unknown field"
