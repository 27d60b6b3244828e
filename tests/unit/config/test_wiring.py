from __future__ import annotations

import pytest

from tests.fakes.configurations import assembled, refusal, registry_with
from tests.fakes.plugins.configured import ColourScorer

REGISTRY = {
    "colour-scorer": "ColourScorer",
    "optional-scorer": "OptionalColourScorer",
    "attribute-scorer": "AttributeScorer",
    "colour-producer": "ColourProducer",
    "wrong-producer": "WrongColourProducer",
    "shade-producer": "ShadeProducer",
    "shady-producer": "ShadyColourProducer",
    "prefix-producer": "PrefixProducer",
    "colouring-scorer": "ColouringScorer",
    "colour-screener": "ColourScreener",
    "friend": "Friend",
}


def document(*plugins: str) -> str:
    return f"plugins: [{', '.join(plugins)}]"


def keys_of(text: str) -> dict[str, str]:
    assembly = assembled(text, registry=registry_with(REGISTRY))
    return {link.reader.name: link.input.key for link in assembly.blueprint.links}


def problems_of(text: str) -> list[str]:
    return refusal(text, registry=registry_with(REGISTRY))


@pytest.mark.parametrize(
    ("plugins", "key"),
    [
        (("{type: colour-producer}",), "Colour/colour-producer"),
        (("{type: colour-producer, name: red}",), "Colour/red"),
        (
            ("{type: colour-producer, name: red}", "{type: colour-producer}"),
            "Colour/colour-producer",
        ),
    ],
    ids=["default name", "the only one", "default name among others"],
)
def test_an_input_is_bound_to_whoever_is_meant(plugins: tuple[str, ...], key: str) -> None:
    assert keys_of(document("{type: colour-scorer}", *plugins))["colour-scorer"] == key


def test_an_input_is_bound_to_the_producer_that_is_named() -> None:
    text = document(
        "{type: colour-scorer, parameters: {colourProducerName: red}}",
        "{type: colour-producer}",
        "{type: colour-producer, name: red}",
    )

    assert keys_of(text)["colour-scorer"] == "Colour/red"
    assert (
        "plugins[1]: nobody reads Colour of 'colour-producer': it is read from 'red'"
        in assembled(text, registry=registry_with(REGISTRY)).warnings
    )


def test_two_producers_ask_for_the_parameter() -> None:
    text = document(
        "{type: colour-scorer}",
        "{type: colour-producer, name: red}",
        "{type: colour-producer, name: blue}",
    )

    assert problems_of(text) == [
        "plugins[0].parameters.colourProducerName: Colour is written by 'red', 'blue'; say which"
        " one 'colour-scorer' reads with colourProducerName"
    ]


@pytest.mark.parametrize(
    ("plugins", "problem"),
    [
        pytest.param(
            [
                "{type: colour-scorer, parameters: {colourProducerName: blu}}",
                "{type: colour-producer, name: blue}",
            ],
            'plugins[0].parameters.colourProducerName: "blu" is no plugin of this document; did'
            " you mean 'blue'?",
            id="unknown name",
        ),
        pytest.param(
            [
                "{type: colour-scorer, parameters: {colourProducerName: queue-scorer}}",
                "{type: colour-producer}",
                "{type: queue-scorer}",
            ],
            "plugins[0].parameters.colourProducerName: plugin 'queue-scorer' (type queue-scorer)"
            " writes no Colour; who does: 'colour-producer'",
            id="writes something else",
        ),
        pytest.param(
            ["{type: colour-scorer}"],
            "plugins[0]: no plugin writes Colour, which 'colour-scorer' reads; list"
            " colour-producer in `plugins`",
            id="nobody",
        ),
        pytest.param(
            ["{type: colour-scorer}", "{type: wrong-producer}"],
            "plugins[0]: 'colour-scorer' reads another Colour than 'wrong-producer' writes",
            id="another type",
        ),
        pytest.param(
            ["{type: shade-producer}", "{type: colouring-scorer}"],
            "plugins[0]: 'shade-producer' reads Colour before 'colouring-scorer' writes it",
            id="too late",
        ),
        pytest.param(
            ["{type: colour-screener}", "{type: colour-producer}"],
            "plugins[0]: 'colour-screener' reads Colour before 'colour-producer' writes it",
            id="too late for a screener",
        ),
        pytest.param(
            ["{type: shade-producer}", "{type: shady-producer}"],
            "plugins: data can't be read in a circle: shade-producer reads from shady-producer"
            " reads from shade-producer",
            id="circle",
        ),
    ],
)
def test_what_can_not_be_wired_is_refused(plugins: list[str], problem: str) -> None:
    assert problems_of(document(*plugins)) == [problem]


def test_an_optional_input_without_producer_reads_as_absent() -> None:
    text = document("{type: optional-scorer}")
    plugin = assembled(text, registry=registry_with(REGISTRY)).plugins["optional-scorer"]

    assert isinstance(plugin, ColourScorer)
    assert plugin.colour.key == ""


def test_producers_run_after_those_they_read_from() -> None:
    text = document(
        "{type: shade-producer}", "{type: prefix-producer}", "{type: colour-producer, name: red}"
    )
    hooks = assembled(text, registry=registry_with(REGISTRY)).plan.hooks.hooks

    assert [p.name for p in hooks.data_producer] == ["prefix-producer", "red", "shade-producer"]


def test_a_missing_producer_does_not_hide_why_another_plugin_was_refused() -> None:
    text = document("{type: colour-scorer}", "{type: colour-producer, parameters: {a: 1}}")

    assert problems_of(text) == [
        "plugins[1].parameters: {'a': 1} is not allowed; colour-producer has none"
    ]


def test_the_only_producer_of_prefix_matches_is_used_and_no_second_one_made() -> None:
    """Pitfall 43: scores must not silently be those of a default producer."""
    text = document("{type: prefix-cache-scorer}", "{type: prefix-producer, name: precise}")
    assembly = assembled(text, registry=registry_with(REGISTRY))

    assert keys_of(text)["prefix-cache-scorer"] == "PrefixCacheMatchInfoDataKey/precise"
    assert "approx-prefix-cache-producer" not in assembly.plugins
    assert assembly.plan.prefix_match is not None
    assert assembly.plan.prefix_match.key == "PrefixCacheMatchInfoDataKey/precise"


def test_two_producers_of_prefix_matches_ask_for_the_parameter() -> None:
    """Pitfall 43."""
    text = document(
        "{type: prefix-cache-scorer}",
        "{type: prefix-producer, name: a}",
        "{type: prefix-producer, name: b}",
    )

    assert problems_of(text) == [
        "plugins[0].parameters.prefixMatchInfoProducerName: PrefixCacheMatchInfoDataKey is written"
        " by 'a', 'b'; say which one 'prefix-cache-scorer' reads with prefixMatchInfoProducerName"
    ]


@pytest.mark.parametrize(
    ("scorer", "producer"),
    [
        (
            "{type: prefix-cache-scorer, parameters:"
            " {prefixMatchInfoProducerName: approx-prefix-cache-producer}}",
            "approx-prefix-cache-producer",
        ),
        (
            "{type: active-request-scorer, parameters:"
            " {inFlightLoadProducerName: inflight-load-producer}}",
            "inflight-load-producer",
        ),
        (
            "{type: mm-embeddings-cache-scorer, parameters:"
            " {producerName: mm-embeddings-cache-producer}}",
            "mm-embeddings-cache-producer",
        ),
    ],
)
def test_a_default_producer_that_is_named_need_not_be_listed(scorer: str, producer: str) -> None:
    assert producer in assembled(document(scorer)).plugins


def test_a_reader_without_a_parameter_reads_from_the_producer_of_the_default_name() -> None:
    text = document(
        "{type: optional-scorer}",
        "{type: colour-producer, name: red}",
        "{type: colour-producer, name: blue}",
    )

    assert problems_of(text) == [
        "plugins[0]: Colour is written by 'red', 'blue'; say which one 'optional-scorer' reads by"
        " calling it 'colour-producer'"
    ]
    assert keys_of(text.replace("blue", "colour-producer")) == {
        "optional-scorer": "Colour/colour-producer"
    }


def test_an_attribute_that_no_extractor_writes_is_warned_about() -> None:
    text = document("{type: attribute-scorer}")

    assert keys_of(text)["attribute-scorer"] == "speed/core-metrics-extractor"
    assert (
        "plugins[0]: 'core-metrics-extractor' is not configured to write 'speed', which"
        " 'attribute-scorer' reads"
    ) in assembled(text, registry=registry_with(REGISTRY)).warnings


def test_a_plugin_that_another_refers_to_is_built_first() -> None:
    text = document("{type: friend, name: a, parameters: {friend: b}}", "{type: friend, name: b}")
    plugins = assembled(text, registry=registry_with(REGISTRY)).plugins

    assert list(plugins)[:2] == ["a", "b"]
    assert vars(plugins["a"])["friend"] is plugins["b"]


@pytest.mark.parametrize(
    ("plugins", "problem"),
    [
        pytest.param(
            ["{type: friend, parameters: {friend: bob}}", "{type: friend, name: bobby}"],
            'plugins[0].parameters.friend: "bob" is no plugin of this document; did you mean'
            " 'bobby'?",
            id="unlisted",
        ),
        pytest.param(
            ["{type: friend, parameters: {friend: queue-scorer}}", "{type: queue-scorer}"],
            "plugins[0].parameters.friend: plugin 'queue-scorer' (queue-scorer) is no Friend",
            id="another kind",
        ),
        pytest.param(
            [
                "{type: friend, name: a, parameters: {friend: b}}",
                "{type: friend, name: b, parameters: {friend: a}}",
            ],
            "plugins[1].parameters.friend: plugins refer to one another: a → b → a",
            id="circle",
        ),
        pytest.param(
            ["{type: friend, parameters: {friend: b}}", "{type: friend, name: b, parameters: 5}"],
            "plugins[1].parameters: 5 is not allowed; a mapping",
            id="refused for another reason",
        ),
    ],
)
def test_references_between_plugins_are_checked(plugins: list[str], problem: str) -> None:
    assert problems_of(document(*plugins)) == [problem]
