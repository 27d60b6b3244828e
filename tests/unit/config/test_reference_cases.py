"""Loader outcomes of the reference (scheduling §15, L1 to L26)."""

from __future__ import annotations

import pytest

from tests.fakes.configurations import assembled, refusal

HEADER = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
QUEUE = "plugins: [{type: queue-scorer}]\n"
RENAMED_SOURCE = """\
plugins:
- {type: queue-scorer}
- {type: metrics-data-source, name: src}
- {type: core-metrics-extractor, name: ext}
dataLayer:
  sources: [{pluginRef: src, extractors: [{pluginRef: ext}]}]
"""


def profiles_of(text: str) -> dict[str, list[tuple[str, float]]]:
    return {
        profile.name: [(member.instance.name, member.weight) for member in profile.members]
        for profile in assembled(text).blueprint.scheduling.profiles
    }


def sources_of(text: str) -> list[tuple[str, list[str]]]:
    return [
        (source.name, [extractor.name for extractor in extractors])
        for source, extractors in assembled(text).sources
    ]


def links_of(text: str) -> set[str]:
    return {f"{link.reader.name} < {link.key}" for link in assembled(text).blueprint.links}


def test_l1_no_text_is_the_built_in_default() -> None:
    assembly = assembled("")

    assert list(assembly.plugins) == [
        "queue-scorer",
        "kv-cache-utilization-scorer",
        "prefix-cache-scorer",
        "metrics-data-source",
        "core-metrics-extractor",
        "single-profile-handler",
        "max-score-picker",
        "openai-parser",
        "anthropic-parser",
        "vllmhttp-parser",
        "passthrough-parser",
        "utilization-detector",
        "approx-prefix-cache-producer",
        "token-producer",
    ]
    assert profiles_of("") == {
        "default": [
            ("queue-scorer", 2),
            ("kv-cache-utilization-scorer", 2),
            ("prefix-cache-scorer", 3),
            ("max-score-picker", 1),
        ]
    }
    assert [producer.name for producer in assembly.plan.hooks.hooks.data_producer] == [
        "token-producer",
        "approx-prefix-cache-producer",
    ]
    assert assembly.warnings == []


@pytest.mark.parametrize("text", [HEADER, "# only a comment", "---\n"], ids=repr)
def test_l2_a_document_that_says_nothing_has_no_scorers(text: str) -> None:
    assert profiles_of(text) == {"default": [("max-score-picker", 1)]}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEADER + QUEUE, id="L3"),
        pytest.param("kind: EndpointPickerConfig\n" + QUEUE, id="L4 without apiVersion"),
        pytest.param("apiVersion: llm-d.ai/v1alpha1\n" + QUEUE, id="L4 without kind"),
        pytest.param(QUEUE, id="L4 without both"),
        pytest.param(
            "apiVersion: inference.networking.x-k8s.io/v1alpha1\n" + QUEUE, id="L4 older group"
        ),
        pytest.param('{"plugins":\n\t[{"type": "queue-scorer"}]}', id="L4 JSON"),
        pytest.param(QUEUE + "---\nkind: Other\n", id="L7 first of several documents"),
    ],
)
def test_a_scorer_alone_makes_a_default_profile(text: str) -> None:
    assert profiles_of(text) == {"default": [("queue-scorer", 1), ("max-score-picker", 1)]}
    assert sources_of(text) == [("metrics-data-source", ["core-metrics-extractor"])]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "apiVersion: llm-d.ai/v1",
            'apiVersion: "llm-d.ai/v1" is not allowed; llm-d.ai/v1alpha1, or'
            " inference.networking.x-k8s.io/v1alpha1, which is deprecated",
            id="L5 version",
        ),
        pytest.param("apiVersion: foo.bar/v1alpha1", 'apiVersion: "foo.bar/v1', id="L5 group"),
        pytest.param(
            "kind: Other", 'kind: "Other" is not allowed; EndpointPickerConfig', id="L5 kind"
        ),
        pytest.param("plugin: []", "plugin: unknown field; did you mean 'plugins'?", id="L6"),
        pytest.param(
            "Plugins: []", "Plugins: unknown field; did you mean 'plugins'?", id="L6 case"
        ),
        pytest.param("data: {}", "data: unknown field; did you mean 'dataLayer'?", id="L6 data"),
        pytest.param(
            "saturationDetector: {queueDepthThreshold: 5}",
            "saturationDetector.queueDepthThreshold: unknown field; it is one of"
            " utilization-detector",
            id="L6 as before there were detectors",
        ),
        pytest.param(
            "plugins: [{type: max-score-picker, parameters: {bogus: 1}}]",
            "plugins[0].parameters.bogus: unknown field; allowed: maxNumOfEndpoints",
            id="L8 unknown",
        ),
        pytest.param(
            'plugins: [{type: max-score-picker, parameters: {maxNumOfEndpoints: "2"}}]',
            'plugins[0].parameters.maxNumOfEndpoints: "2" is not allowed; a valid integer',
            id="L8 type",
        ),
        pytest.param(
            "plugins: [{type: random-picker}, {type: max-score-picker}]",
            "plugins[1]: 'max-score-picker' is a second picker in profile 'default', after"
            " 'random-picker'; a profile has one",
            id="L10",
        ),
        pytest.param(
            "plugins: [{type: token-load-scorer}]",
            "plugins[0]: no plugin writes UncachedRequestTokensDataKey, which 'token-load-scorer'"
            " reads; list inflight-load-producer in `plugins`",
            id="L13 alone",
        ),
        pytest.param(
            "plugins: [{type: prefix-cache-scorer,"
            " parameters: {prefixMatchInfoProducerName: ghost}}]",
            'plugins[0].parameters.prefixMatchInfoProducerName: "ghost" is no plugin of this',
            id="L14 ghost",
        ),
        pytest.param(
            "plugins: [{type: precise-prefix-cache-producer}, {type: prefix-cache-scorer}]",
            "plugins[0].type: plugin type 'precise-prefix-cache-producer' is not available in this"
            " version",
            id="L15 deviates by decision 16",
        ),
        pytest.param(
            "requestHandler: {parsers: [{pluginRef: vertexai-parser}]}",
            "requestHandler.parsers[0].pluginRef: plugin type 'vertexai-parser' is not available in"
            " this version",
            id="a parser by its type, by decision 16",
        ),
        pytest.param(
            QUEUE + "dataLayer: {injectDefaults: false}",
            "plugins[0]: no plugin writes WaitingQueueSize, which 'queue-scorer' reads; list"
            " core-metrics-extractor in `plugins`",
            id="L19",
        ),
        pytest.param(
            QUEUE
            + 'schedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer, weight: "2"}]}]',
            'schedulingProfiles[0].plugins[0].weight: "2" is not allowed; a valid number',
            id="L21 weight",
        ),
        pytest.param(
            "flowControl: {defaultRequestTTL: 5}",
            "flowControl.defaultRequestTTL: 5 is not allowed; a string (quote it)",
            id="L21 duration",
        ),
        pytest.param(
            "schedulingProfiles: [{name: a}, {name: b}]",
            "schedulingProfiles: no profile handler for 'a', 'b'; list one in `plugins`",
            id="L22 no handler",
        ),
        pytest.param(
            "plugins: [{type: single-profile-handler}, {type: disagg-profile-handler}]",
            "plugins[1]: several profile handlers: 'single-profile-handler',"
            " 'disagg-profile-handler'; only one is allowed",
            id="L22 two handlers",
        ),
        pytest.param(
            "featureGates: [flowControl=maybe]",
            'featureGates[0]: "flowControl=maybe" is not allowed; flowControl=true or'
            " flowControl=false",
            id="L24 value",
        ),
        pytest.param(
            "featureGates: [nope]", 'featureGates[0]: "nope" is no feature gate', id="L24 name"
        ),
        pytest.param(
            "featureGates: [flowControl=TRUE]",
            "featureGates: flowControl is not available in this version; switch it off or leave it",
            id="L24 deviates by decision 16",
        ),
        pytest.param(
            "flowControl: {priorityBands: [{priority: 1}, {priority: 1}]}",
            "flowControl.priorityBands[1].priority: the priority of priorityBands[0] already",
            id="L25 duplicate",
        ),
        pytest.param(
            "flowControl: {maxBytes: -1}", "flowControl.maxBytes: -1 is not allowed;", id="L25"
        ),
        pytest.param(
            "plugins: [{type: session-affinity-scorer}]",
            "plugins[0]: plugin 'session-affinity-scorer' (type 'session-affinity-scorer') has"
            " stability Alpha; allow it with --allow-experimental-plugins, a flag of `epp serve`,"
            " `epp standalone` and `epp config check`",
            id="L26",
        ),
    ],
)
def test_what_the_reference_refuses_is_refused(text: str, problem: str) -> None:
    problems = refusal(text)

    assert [line for line in problems if line.startswith(problem)], problems


@pytest.mark.parametrize(
    "text", ["kind: A\nkind: B", "plugins: [{type: queue-scorer, type: queue-scorer}]"]
)
def test_l6_a_key_that_is_given_twice_is_refused(text: str) -> None:
    with pytest.raises(Exception, match="is given twice"):
        assembled(text)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        pytest.param(
            "plugins: [{type: max-score-picker, parameters: {MAXNUMOFENDPOINTS: 3}}]",
            "plugins[0].parameters.MAXNUMOFENDPOINTS: read as 'maxNumOfEndpoints'",
            id="L9 case",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer, parameters: {anything: 1}}]",
            "plugins[0].parameters: ignored: queue-scorer looks at none",
            id="L9 ignored",
        ),
        pytest.param(
            "apiVersion: inference.networking.x-k8s.io/v1alpha1",
            "apiVersion: inference.networking.x-k8s.io/v1alpha1 is deprecated;",
            id="L4 older group",
        ),
        pytest.param("{}\n---\n{}", "only the first of several YAML documents is read", id="L7"),
        pytest.param(
            QUEUE
            + "schedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer, weight: -3}]}]",
            "schedulingProfiles[0].plugins[0].weight: -3 prefers the endpoints that",
            id="L20 negative weight",
        ),
        pytest.param(
            "plugins: [{type: metrics-data-source}]\n"
            "schedulingProfiles: [{name: a, plugins: [{pluginRef: metrics-data-source}]}]",
            "schedulingProfiles[0].plugins[0].pluginRef: without effect: 'metrics-data-source' is",
            id="L20 another kind",
        ),
        pytest.param(
            RENAMED_SOURCE, "dataLayer.sources[0].pluginRef: endpoints are scraped twice", id="L17"
        ),
        pytest.param(
            "plugins: [{type: latency-scorer}]",
            "plugins[0]: no plugin writes LatencyPredictionInfoDataKey, which 'latency-scorer'"
            " reads; predicted-latency-producer is not available in this version",
            id="L16 by decision 16",
        ),
        pytest.param(
            "plugins: [{type: slo-headroom-tier-filter}]",
            "plugins[0]: no plugin writes LatencyPredictionInfoDataKey",
            id="filter of predictions",
        ),
        pytest.param(
            "flowControl: {maxRequests: 5}",
            "flowControl.maxRequests: without effect: feature gate flowControl is off",
            id="L25 gate off",
        ),
        pytest.param(
            "flowControl: {maxBytes: 2Ei, maxRequests: 1e3, defaultPriorityBand: {maxBytes: 5E}}",
            "flowControl.maxBytes: without effect: feature gate flowControl is off",
            id="quantities as Kubernetes writes them",
        ),
    ],
)
def test_what_the_reference_accepts_silently_is_warned_about(text: str, warning: str) -> None:
    warnings = assembled(text).warnings

    assert [line for line in warnings if line.startswith(warning)], warnings


def test_l9_a_limit_below_one_is_accepted() -> None:
    assembled("plugins: [{type: max-score-picker, parameters: {maxNumOfEndpoints: -1}}]")


def test_a_stage_whose_decider_has_no_profile_to_decide_on_is_skipped_with_a_warning() -> None:
    text = (
        "plugins: [{type: disagg-profile-handler,"
        " parameters: {deciders: {encode: always-disagg-multimodal-decider}}},"
        " {type: always-disagg-multimodal-decider}, {type: queue-scorer}]\n"
        "schedulingProfiles: [{name: decode, plugins: [{pluginRef: queue-scorer}]}]"
    )

    (warning,) = assembled(text).warnings

    assert warning.startswith("schedulingProfiles: profile handler 'disagg-profile-handler':")
    assert "encode stage: there is no profile 'encode' (parameters.profiles.encode)" in warning
    assert "'always-disagg-multimodal-decider'" in warning


def test_l11_a_profile_without_picker_gets_the_first_of_the_document() -> None:
    text = (
        "plugins: [{type: random-picker}, {type: max-score-picker}, {type: queue-scorer}]\n"
        "schedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer}]}]"
    )

    assert profiles_of(text) == {"a": [("queue-scorer", 1), ("random-picker", 1)]}
    assert "plugins[1]: 'max-score-picker' is in no profile" in assembled(text).warnings


def test_l12_a_listed_detector_is_a_filter_of_the_default_profile() -> None:
    assert profiles_of("plugins: [{type: queue-scorer}, {type: utilization-detector}]") == {
        "default": [("queue-scorer", 1), ("utilization-detector", 1), ("max-score-picker", 1)]
    }


def test_l13_token_load_with_its_producer_loads() -> None:
    text = "plugins: [{type: token-load-scorer}, {type: inflight-load-producer}]"

    assert "token-load-scorer < UncachedRequestTokensDataKey/inflight-load-producer" in links_of(
        text
    )


def test_l14_a_named_producer_is_read_and_no_second_one_made() -> None:
    text = (
        "plugins: [{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: p}},"
        " {type: approx-prefix-cache-producer, name: p}]"
    )

    assert "prefix-cache-scorer < PrefixCacheMatchInfoDataKey/p" in links_of(text)
    assert "approx-prefix-cache-producer" not in assembled(text).plugins


def test_l16_latency_scorer_does_without_predictions_by_decision_16() -> None:
    assert links_of("plugins: [{type: latency-scorer}]") >= {
        "latency-scorer < ",
        "latency-scorer < PrefixCacheMatchInfoDataKey/approx-prefix-cache-producer",
    }


def test_l17_a_renamed_source_has_the_default_one_beside_it() -> None:
    assert sources_of(RENAMED_SOURCE) == [
        ("src", ["ext"]),
        ("metrics-data-source", ["core-metrics-extractor"]),
    ]


def test_l18_without_injection_the_renamed_extractor_is_enough() -> None:
    text = RENAMED_SOURCE + "  injectDefaults: false\n"

    assert sources_of(text) == [("src", ["ext"])]
    assert links_of(text) == {"queue-scorer < WaitingQueueSize/ext"}


def test_l20_a_scorer_that_is_named_twice_counts_twice() -> None:
    text = QUEUE + (
        "schedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer, weight: 0},"
        " {pluginRef: queue-scorer, weight: 2.5}]}]"
    )

    assert profiles_of(text) == {
        "a": [("queue-scorer", 0), ("queue-scorer", 2.5), ("max-score-picker", 1)]
    }


def test_l22_a_single_profile_handler_takes_one_profile() -> None:
    problems = refusal(
        "plugins: [{type: single-profile-handler}]\nschedulingProfiles: [{name: a}, {name: b}]"
    )

    assert len(problems) == 1
    assert problems[0].startswith("schedulingProfiles: ")


@pytest.mark.parametrize(
    ("parameters", "is_accepted"),
    [
        ("{decodeProfile: decode, deciderPluginName: d}", True),
        ("{profiles: {decode: decode}, deciders: {prefill: d}}", True),
        ("{profiles: {decode: decode}, deciderPluginName: d}", False),
        ("{stageOrder: prefill-first, deciders: {prefill: d}}", False),
    ],
    ids=["flat", "nested", "mixed", "prefill-first with a decider"],
)
def test_l23_forms_of_the_disagg_handler(parameters: str, is_accepted: bool) -> None:
    text = (
        f"plugins: [{{type: disagg-profile-handler, parameters: {parameters}}},"
        " {type: always-disagg-pd-decider, name: d}]\n"
        "schedulingProfiles: [{name: decode}, {name: prefill}]"
    )

    if is_accepted:
        assert "disagg-profile-handler" in assembled(text).plugins
    else:
        assert all(line.startswith("plugins[0].parameters") for line in refusal(text))


@pytest.mark.parametrize("gate", ["flowControl=false", "flowControl= F ", "flowControl=0"])
def test_l24_gates_are_read_as_go_reads_booleans(gate: str) -> None:
    assert assembled(f"featureGates: ['{gate}']").blueprint.feature_gates == {
        "flowControl": False,
        "haPopulateNonLeaderDatastore": True,
    }


def test_l26_alpha_plugins_load_when_they_are_allowed() -> None:
    text = "plugins: [{type: session-affinity-scorer}]"

    assert "session-affinity-scorer" in assembled(text, allow_experimental=True).plugins
