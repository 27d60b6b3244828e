from __future__ import annotations

from pathlib import Path

from epp.config.descriptions import describe, describe_all
from epp.config.plugin_pages import reference_page
from epp.config.plugin_registry import PluginRegistry
from tests.fakes.configurations import registry_with

PAGE = Path(__file__).parents[3] / "docs" / "plugin-reference.md"


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page()


def test_every_bundled_plugin_and_every_parameter_of_it_is_explained() -> None:
    described = list(describe_all(PluginRegistry()))

    assert [one.type for one in described if one.problem or not one.summary] == []
    assert [
        f"{one.type} {row.path}"
        for one in described
        for row in one.parameters
        if not row.description
    ] == []


def test_parameters_within_others_have_paths() -> None:
    described = describe("session-affinity-scorer", PluginRegistry())
    rows = {row.path: row for row in described.parameters}

    header = rows["sessionIdConfig.sources[].header"]
    assert (header.type, header.default) == ("string", '""')
    assert rows["strategy"].bounds == 'one of "encoded_endpoint_header", "session_id"'
    assert rows["sessionIdConfig.evictionTtlSeconds"].bounds == "> 0"


def test_what_a_plugin_reads_and_writes_is_told() -> None:
    described = describe("approx-prefix-cache-producer", PluginRegistry())

    assert (described.reads, described.writes) == (
        ["TokenizedPrompt"],
        ["PrefixCacheMatchInfoDataKey"],
    )


def test_a_stranger_is_described_without_being_built() -> None:
    described = describe("failing", registry_with({"failing": "FailingPlugin"}))

    assert (described.summary, described.kinds, described.reads) == (
        "Can't be built.",
        ["hook"],
        None,
    )


def test_what_the_scores_stand_for_is_told_of_every_bundled_scorer() -> None:
    described = list(describe_all(PluginRegistry()))

    assert {one.type for one in described if one.scores} == {
        one.type for one in described if "scorer" in one.kinds
    }
    assert describe("queue-scorer", PluginRegistry()).scores.startswith("1 for the shortest queue")
    assert describe("prefix-cache-scorer", PluginRegistry()).scores.startswith("The matched share")
