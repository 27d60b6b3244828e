from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from epp.config.assembly import assemble
from epp.config.loader import MAX_BYTES, load_config, read_config
from epp.config.plugin_registry import PluginRegistry
from epp.framework.errors import ConfigError
from epp.framework.plugin import parameters_of
from epp.observability.metrics import Metrics
from epp.plugins.catalogue import BUNDLED
from tests.fakes.configurations import assembled, refusal

REGISTRY = PluginRegistry()
METRICS = Metrics()


def test_every_mistake_is_told_at_once_with_its_path() -> None:
    text = """
        apiVersion: llm-d.ai/v2
        featureGates: [nope]
        plugins:
        - 5
        - {type: quee-scorer}
        - {name: x}
        - {type: max-score-picker, parameter: {}, parameters: {maxNumOfEndpoint: 1}}
        - {type: queue-scorer}
        - {type: queue-scorer}
        schedulingProfiles:
        - name: default
          plugins:
          - {pluginRef: queue-scorer, weight: .nan}
          - {pluginRef: quue-scorer}
          - {}
          - {pluginRef: x}
        - name: default
        dataLayer:
          sources: [{pluginRef: queue-scorer}, {pluginRef: metrics-data-source, extractor: []}]
        parsers: {}
    """

    assert refusal(text) == [
        "plugins[0]: 5 is not allowed; a mapping",
        "plugins[3].parameter: unknown field; did you mean 'parameters'?",
        "schedulingProfiles[0].plugins[0].weight: NaN is not allowed; a finite number",
        "dataLayer.sources[1].extractor: unknown field; did you mean 'extractors'?",
        "parsers: unknown field; did you mean 'parser'?",
        'apiVersion: "llm-d.ai/v2" is not allowed; llm-d.ai/v1alpha1, or'
        " inference.networking.x-k8s.io/v1alpha1, which is deprecated",
        'featureGates[0]: "nope" is no feature gate',
        "plugins[2].type: required",
        "plugins[5]: the name 'queue-scorer' is that of plugins[4]; give it a `name` of its own",
        "schedulingProfiles[0].plugins[2].pluginRef: required",
        "schedulingProfiles[1].name: the name 'default' is that of schedulingProfiles[0]",
        "plugins[1].type: \"quee-scorer\" is no plugin type; did you mean 'queue-scorer'?",
        "plugins[3].parameters.maxNumOfEndpoint: unknown field; did you mean 'maxNumOfEndpoints'?",
        'schedulingProfiles[0].plugins[1].pluginRef: "quue-scorer" is no plugin of this document;'
        " did you mean 'queue-scorer'?",
        "dataLayer.sources[0].pluginRef: plugin 'queue-scorer' (type 'queue-scorer') is not"
        " allowed; a DataSource",
        'dataLayer.sources[1].pluginRef: "metrics-data-source" is no plugin of this document',
    ]


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        pytest.param(
            "{type: burst-prefix-cache-producer, parameters: {blockSizeToken: 16}}",
            "plugins[0].parameters.blockSizeToken: unknown field; did you mean 'blockSizeTokens'?",
            id="pitfall 49",
        ),
        pytest.param(
            "{type: prefix-cache-scorer, parameters: {match_length_weight: 0.5}}",
            "plugins[0].parameters.match_length_weight: unknown field; did you mean"
            " 'matchLengthWeight'?",
            id="Python's name",
        ),
        pytest.param(
            "{type: session-affinity-scorer,"
            " parameters: {sessionIdConfig: {sources: [{headers: x}]}}}",
            "plugins[0].parameters.sessionIdConfig.sources[0].headers: unknown field; did you mean"
            " 'header'?",
            id="deep",
        ),
        pytest.param(
            "{type: max-score-picker, parameters: {maxNumOfEndpoints: 1, maxnumofendpoints: 2}}",
            "plugins[0].parameters.maxnumofendpoints: 'maxNumOfEndpoints' is given twice",
            id="twice",
        ),
        pytest.param(
            "{type: max-score-picker, parameters: [1]}",
            "plugins[0].parameters: [1] is not allowed; a mapping",
            id="a list",
        ),
        pytest.param(
            "{type: max-score-picker, parameters: {maxNumOfEndpoints: 2026-01-01}}",
            "plugins[0].parameters: not what JSON can hold (quote dates): Object of type date is",
            id="a date",
        ),
        pytest.param(
            "{type: passthrough-parser, parameters: {a: 1}}",
            "plugins[0].parameters: {'a': 1} is not allowed; passthrough-parser has none",
            id="none",
        ),
    ],
)
def test_a_parameter_nobody_knows_is_named_with_its_nearest(parameters: str, problem: str) -> None:
    problems = refusal(f"plugins: [{parameters}]")

    assert [line for line in problems if line.startswith(problem)], problems


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        ("blockSize: 32", "blockSize: deprecated; use blockSizeTokens"),
        (
            "maxPrefixBlocksToMatch: 9",
            "maxPrefixBlocksToMatch: deprecated; use maxPrefixTokensToMatch",
        ),
        ("blockSizeTokens: 32", None),
        ("blockSize: 0", None),
    ],
    ids=["one", "another", "the new one", "as a resolved document has it"],
)
def test_a_deprecated_parameter_is_warned_about_with_what_replaced_it(
    given: str, warning: str | None
) -> None:
    """Pitfall 49."""
    text = f"plugins: [{{type: approx-prefix-cache-producer, parameters: {{{given}}}}}]"

    told = [line for line in assembled(text).warnings if ".parameters." in line]

    assert told == ([f"plugins[0].parameters.{warning}"] if warning else [])


def test_every_parameter_that_was_replaced_exists_and_so_does_its_successor() -> None:
    for kind in map(REGISTRY.find, BUNDLED):
        schema = parameters_of(kind)
        if schema is not None and schema.replaced:
            names = {field.alias for field in schema.model_fields.values()}
            assert names.issuperset([*schema.replaced, *schema.replaced.values()])


def test_names_of_deeper_parameters_are_matched_without_case() -> None:
    warnings = assembled(
        "plugins: [{type: session-affinity-scorer, parameters:"
        " {SessionIdConfig: {sources: [{HEADER: x}]}}}]",
        allow_experimental=True,
    ).warnings

    assert warnings[:2] == [
        "plugins[0].parameters.SessionIdConfig: read as 'sessionIdConfig': names are"
        " case-sensitive",
        "plugins[0].parameters.sessionIdConfig.sources[0].HEADER: read as 'header': names are"
        " case-sensitive",
    ]


def test_null_counts_as_left_out() -> None:
    text = (
        "plugins: [{type: queue-scorer, name: null, parameters: null},"
        " {type: max-score-picker, parameters: {maxNumOfEndpoints: null}}]\ndataLayer: null"
    )

    assert "queue-scorer" in assembled(text).plugins


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: ]", "the configuration can't be used: not valid YAML: line 1"),
        ("- a", "the configuration can't be used: not a mapping"),
        (" " * (MAX_BYTES + 1), f"the configuration is longer than {MAX_BYTES} bytes"),
        (b"\xff", "the configuration is not UTF-8: byte 0"),
    ],
    ids=["YAML", "list", "size", "UTF-8"],
)
def test_what_is_no_document_is_refused_at_once(text: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(text)

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "plugins: [" + "{}, " * 1001 + "]",
            "plugins: 1001 entries are not allowed; at most 1000",
        ),
        (
            "".join(f"{number}: 1\n" for number in range(20_000)),
            "[0]: 0 is not allowed; fields are strings (quote it)",
        ),
        ("".join(f"a{number}: 1\n" for number in range(20_000)), "a0: unknown field;"),
    ],
    ids=["entries", "numbers as fields", "fields"],
)
def test_a_document_out_of_proportion_is_refused(text: str, problem: str) -> None:
    problems = refusal(text)

    assert problems[0].startswith(problem)
    assert len(problems) <= 51


def test_a_file_is_named_in_what_is_said_of_it(tmp_path: Path) -> None:
    file = tmp_path / "epp.yaml"

    with pytest.raises(ConfigError, match=f"{file} can't be read: No such file"):
        read_config(file)
    file.write_bytes(b"\xef\xbb\xbfplugins: [{type: queue-scorer}]")
    assert [entry.name for entry in read_config(file).plugins] == ["queue-scorer"]
    with pytest.raises(ConfigError, match=f"{tmp_path} can't be read: Is a directory"):
        read_config(tmp_path)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "epp.yaml")

    with pytest.raises(ConfigError, match=f"{pipe} can't be read: not a regular file"):
        read_config(pipe)


WORDS = [
    *("plugins", "type", "name", "parameters", "pluginRef", "schedulingProfiles", "weight"),
    *("dataLayer", "sources", "extractors", "featureGates", "requestHandler", "parsers", "parser"),
    *("flowControl", "saturationDetector", "discovery", "injectDefaults", "priorityBands"),
    *(
        "queue-scorer",
        "max-score-picker",
        "prefix-cache-scorer",
        "disagg-profile-handler",
        "flowControl",
    ),
    *("token-producer", "metrics-data-source", "maxNumOfEndpoints", "deciders", "prefill"),
]
VALUES = st.recursive(
    st.sampled_from(WORDS) | st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(WORDS) | st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=25,
)


def references() -> st.SearchStrategy[dict[object, object]]:
    return st.fixed_dictionaries({}, optional={"pluginRef": st.sampled_from(WORDS) | VALUES})


PLAUSIBLE = st.fixed_dictionaries(
    {},
    optional={
        "plugins": st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(REGISTRY.types()) | VALUES},
                optional={"name": st.sampled_from(WORDS), "parameters": VALUES},
            ),
            max_size=6,
        ),
        "schedulingProfiles": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(WORDS)},
                optional={"plugins": st.lists(references(), max_size=4), "more": VALUES},
            ),
            max_size=3,
        ),
        "dataLayer": st.fixed_dictionaries(
            {}, optional={"sources": st.lists(references(), max_size=3), "discovery": references()}
        ),
        "requestHandler": st.fixed_dictionaries({"parsers": st.lists(references(), max_size=3)}),
        "flowControl": VALUES,
        "featureGates": VALUES,
    },
)


@given(st.one_of(PLAUSIBLE, st.dictionaries(st.sampled_from(WORDS), VALUES)))
def test_any_document_is_assembled_or_refused_with_an_explanation(document: object) -> None:
    with contextlib.suppress(ConfigError):
        assemble(
            load_config(yaml.safe_dump(document)),
            REGISTRY,
            metrics=METRICS,
            rng=random.Random(1),
            allow_experimental=True,
        )


@given(st.text(alphabet="ab:-[]{}&*!,#'\"|>?%@<=12 \n\tplugins") | st.text() | st.binary())
def test_any_text_is_a_document_or_refused_with_an_explanation(text: str | bytes) -> None:
    with contextlib.suppress(ConfigError):
        load_config(text)
