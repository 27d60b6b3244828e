from __future__ import annotations

import pytest

from epp.config.plugin_registry import PluginRegistry
from epp.framework.errors import ConfigError
from tests.fakes.configurations import assembled, offered, refusal, registry_with
from tests.fakes.plugins.configured import ColourScorer, NotFinished

MODULE = "tests.fakes.plugins.configured"


def test_every_bundled_type_can_be_imported_under_its_own_name() -> None:
    registry = PluginRegistry()

    assert [name for name in registry.types() if registry.find(name).type != name] == []


def test_a_type_of_another_distribution_is_used_by_its_name() -> None:
    registry = registry_with({"colour-scorer": "ColourScorer", "colour-producer": "ColourProducer"})
    text = "plugins: [{type: colour-scorer, name: mine}, {type: colour-producer}]"

    plugin = assembled(text, registry=registry).plugins["mine"]

    assert isinstance(plugin, ColourScorer)
    assert (plugin.type, plugin.name) == ("colour-scorer", "mine")


def test_a_module_is_imported_when_its_type_is_first_named() -> None:
    registry = PluginRegistry({}, [offered("broken", "tests.fakes.nowhere:Plugin")])

    assert registry.types() == ["broken"]
    with pytest.raises(ConfigError) as caught:
        registry.find("broken")
    assert str(caught.value) == (
        "plugin type 'broken' of distribution 'acme' (entry point broken ="
        " tests.fakes.nowhere:Plugin) can't be imported: ModuleNotFoundError(\"No module named"
        " 'tests.fakes.nowhere'\")"
    )


def test_two_distributions_that_offer_one_type_are_both_named() -> None:
    points = [
        offered("colour-scorer", f"{MODULE}:ColourScorer", by="acme"),
        offered("colour-scorer", f"{MODULE}:ColourScorer", by="zenith"),
    ]

    with pytest.raises(ConfigError) as caught:
        PluginRegistry({}, points).find("colour-scorer")

    assert str(caught.value) == (
        "plugin type 'colour-scorer' is offered by distribution 'acme' and by distribution"
        " 'zenith'; leave out all but one"
    )


def test_a_class_that_is_given_is_used_by_its_name() -> None:
    registry = PluginRegistry(given={"mine": ColourScorer})

    assert registry.find("mine") is ColourScorer
    assert "mine" in registry.types()


def test_a_class_that_is_given_is_checked_like_any_other() -> None:
    with pytest.raises(ConfigError, match="plugin type 'odd' lacks the methods score"):
        PluginRegistry(given={"odd": NotFinished}).find("odd")


def test_a_class_can_not_be_given_for_a_bundled_type() -> None:
    with pytest.raises(ConfigError, match="offered by this distribution and by the caller"):
        PluginRegistry(given={"queue-scorer": ColourScorer}).find("queue-scorer")


def test_a_bundled_type_can_not_be_offered_by_somebody_else() -> None:
    registry = registry_with({"max-score-picker": "ColourScorer"})

    assert refusal("", registry=registry) == [
        "plugin type 'max-score-picker' is offered by this distribution and by distribution"
        " 'acme'; leave out all but one"
    ]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("NOT_A_PLUGIN", "is no class derived from epp.framework.Plugin"),
        ("NotFinished", "lacks the methods score"),
        ("MisAnnotated", "the annotations of its __init__ can't be read: NameError"),
        ("Missing", "can't be imported: AttributeError"),
    ],
)
def test_a_class_that_is_no_plugin_is_refused(kind: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry_with({"odd": kind}).find("odd")

    assert f"plugin type 'odd' of distribution 'acme' (entry point odd = {MODULE}:{kind})" in str(
        caught.value
    )
    assert message in str(caught.value)


def test_a_plugin_that_can_not_be_built_is_named() -> None:
    registry = registry_with({"failing": "FailingPlugin"})

    assert refusal("plugins: [{type: failing}]", registry=registry) == [
        "plugins[0]: plugin 'failing' can't be built: RuntimeError('no such luck')"
    ]


def test_a_plugin_that_ends_processes_does_not_end_this_one() -> None:
    registry = PluginRegistry({}, [offered("exiting", "tests.fakes.plugins.exiting_module:Plugin")])
    built = registry_with({"exiting": "ExitingPlugin"})

    with pytest.raises(ConfigError, match=r"can't be imported: SystemExit\(3\)"):
        registry.find("exiting")
    assert refusal("plugins: [{type: exiting}]", registry=built) == [
        "plugins[0]: plugin 'exiting' can't be built: SystemExit(3)"
    ]


def test_an_unknown_type_leads_to_the_nearest_or_to_the_list() -> None:
    assert refusal("plugins: [{type: quee-scorer}, {type: x}]") == [
        "plugins[0].type: \"quee-scorer\" is no plugin type; did you mean 'queue-scorer'?",
        'plugins[1].type: "x" is no plugin type; `epp plugins list` prints them all',
    ]
