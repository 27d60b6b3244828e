"""Configurations as operators have them: the examples do what they say, and older forms load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epp.framework.endpoint import EndpointMetrics
from epp.framework.errors import Rejection
from epp.library import Picker
from tests.fakes.configurations import assembled

EXAMPLES = Path(__file__).parents[2] / "config/examples"
A, B, C, D = POOL = tuple(f"10.0.0.{number}:8000" for number in (1, 2, 3, 4))
LONG = "a long prompt, " * 400


def picker_of(example: str, pool: dict[str, dict[str, str]] | tuple[str, ...] = POOL) -> Picker:
    text = (EXAMPLES / example).read_text()
    picker = Picker.from_config(text, seed=1, allow_experimental=True)
    for address in pool:
        picker.add(address, labels=pool[address] if isinstance(pool, dict) else None)
    return picker


def roles(*names: str) -> dict[str, dict[str, str]]:
    return {address: {"llm-d.ai/role": name} for address, name in zip(POOL, names, strict=True)}


def with_image(text: str) -> dict[str, Any]:
    image = {"type": "image_url", "image_url": {"url": "http://images/train.png"}}
    parts = [{"type": "text", "text": text}, image]
    return {"model": "m", "messages": [{"role": "user", "content": parts}]}


def test_media_are_encoded_where_they_were_before() -> None:
    picker = picker_of("encode-prefill-decode.yaml", roles("encode", "encode", "prefill", "decode"))
    chats = "/v1/chat/completions"

    picks = [picker.pick(body=with_image(f"{n} {LONG}"), path=chats) for n in range(3)]
    text = picker.pick(model="m", prompt="short")

    encoders = {pick.headers["x-encoder-hosts-ports"] for pick in picks}
    assert len(encoders) == 1
    assert encoders < {A, B}
    assert [pick.headers["x-prefiller-host-port"] for pick in picks] == [C] * 3
    assert [pick.address for pick in (*picks, text)] == [D] * 4
    assert text.headers["x-encoder-hosts-ports"] is None
    assert text.headers["x-prefiller-host-port"] is None


def test_the_gateway_talks_to_the_first_port_of_the_rank_that_was_picked() -> None:
    ranks = tuple(f"10.0.0.1:{port}" for port in range(8000, 8004))
    picker = picker_of("data-parallel.yaml", ranks)

    picks = [picker.pick(model="m", prompt=f"{n} {LONG}") for n in range(8)]

    assert {pick.address for pick in picks} == {"10.0.0.1:8000"}
    assert {pick.headers["x-data-parallel-host-port"] for pick in picks} == set(ranks)


@pytest.mark.parametrize(
    "headers",
    [{"x-session-id": "s1"}, {"cookie": "theme=dark; session=s1"}],
    ids=["header", "cookie"],
)
def test_a_session_stays_where_it_is_unless_that_is_much_worse(headers: dict[str, str]) -> None:
    picker = picker_of("session-affinity.yaml")

    first, *others = (picker.pick(model="m", prompt=f"{n}", headers=headers) for n in range(5))
    picker.observe(first.address, EndpointMetrics(waiting_queue_size=40, kv_cache_usage=0.95))
    later = picker.pick(model="m", prompt="late", headers=headers)

    assert {other.address for other in others} == {first.address}
    assert later.address != first.address


def test_a_prompt_that_is_cached_does_not_make_one_endpoint_busy() -> None:
    picker = picker_of("cold-prompts.yaml")

    picks = [picker.pick(model="m", prompt=LONG) for _ in range(8)]

    assert {pick.address for pick in picks} == set(POOL)


def test_most_of_a_prompt_is_kept_to_until_its_endpoint_has_too_much_to_compute() -> None:
    picker = picker_of("bounded-affinity.yaml")
    first = picker.pick(model="m", prompt=LONG)
    first.done()

    cached = [picker.pick(model="m", prompt=LONG) for _ in range(5)]
    for number in range(20):
        picker.pick(model="m", prompt=f"{number}" + LONG * 10, among=[first.address])
    busy = picker.pick(model="m", prompt=LONG)

    assert {pick.address for pick in cached} == {first.address}
    assert busy.result is not None
    assert len(busy.result.profiles["default"].candidates) == len(POOL)


@pytest.mark.parametrize(
    ("headers", "profile"), [({"EPP-Profile": "batch"}, "batch"), ({}, "interactive")]
)
def test_a_header_chooses_the_profile(headers: dict[str, str], profile: str) -> None:
    pick = picker_of("header-profile.yaml").pick(model="m", prompt="a", headers=headers)

    assert pick.result is not None
    assert pick.result.primary == profile


def test_an_unknown_profile_is_answered_with_429() -> None:
    picker = picker_of("header-profile.yaml")

    with pytest.raises(Rejection) as caught:
        picker.pick(model="m", prompt="a", headers={"EPP-Profile": "nightly"})

    assert caught.value.http_status == 429


def test_labels_leave_out_and_prefer() -> None:
    app = {"app": "model-server"}
    pool = {
        A: {**app, "track": "canary"},
        B: {**app, "topology.kubernetes.io/region": "eu"},
        C: {**app, "llm-d.ai/context-length-range": "0-4096"},
    }
    picker = picker_of("label-selectors.yaml", pool)

    assert picker.pick(model="m", prompt=LONG * 9, headers={"x-region": "eu"}).address == B
    assert picker.pick(model="m", prompt="Hello").address == C


OLDER_FORMS = {
    "disaggregated in the flat form": """\
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefill-header-handler
- type: prefill-filter
- type: decode-filter
- type: prefix-cache-scorer
- type: queue-scorer
- type: max-score-picker
- type: prefix-based-pd-decider
  parameters: {nonCachedTokens: 16}
- type: disagg-profile-handler
  parameters:
    decodeProfile: decode
    prefillProfile: prefill
    deciderPluginName: prefix-based-pd-decider
schedulingProfiles:
- name: prefill
  plugins:
  - pluginRef: prefill-filter
  - pluginRef: max-score-picker
  - {pluginRef: prefix-cache-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 1}
- name: decode
  plugins:
  - pluginRef: decode-filter
  - pluginRef: max-score-picker
  - {pluginRef: prefix-cache-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 1}
""",
    "the handler before that": """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: disagg-headers-handler
- {type: by-label, name: prefill-pods, parameters: {label: role, validValues: [prefill]}}
- {type: by-label-selector, name: decode-pods, parameters: {matchLabels: {role: decode}}}
- type: load-aware-scorer
  parameters: {threshold: 10}
- type: prefix-based-pd-decider
  parameters: {nonCachedTokens: 16}
- type: pd-profile-handler
  parameters: {primaryPort: 8000, prefixPluginName: prefix-cache-scorer}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-pods}, {pluginRef: load-aware-scorer}]}
- {name: decode, plugins: [{pluginRef: decode-pods}, {pluginRef: load-aware-scorer}]}
""",
    "names of producers written out": """\
kind: EndpointPickerConfig
plugins:
- type: tokenizer
- type: approx-prefix-cache-producer
  parameters: {blockSize: 64, maxPrefixBlocksToMatch: 256, lruCapacityPerServer: 31250}
- type: inflight-load-producer
- type: prefix-cache-scorer
  parameters: {prefixMatchInfoProducerName: approx-prefix-cache-producer}
- type: token-load-scorer
  parameters: {inFlightLoadProducerName: inflight-load-producer}
- type: active-request-scorer
  parameters: {requestTimeout: 2m}
""",
    "latencies": """\
kind: EndpointPickerConfig
plugins:
- type: prefix-cache-affinity-filter
- type: slo-headroom-tier-filter
- type: latency-scorer
  parameters: {compositeKVWeight: 1, compositeQueueWeight: 2, compositePrefixWeight: 2}
- type: weighted-random-picker
- type: latency-slo-admitter
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: prefix-cache-affinity-filter
  - pluginRef: slo-headroom-tier-filter
  - pluginRef: latency-scorer
  - pluginRef: weighted-random-picker
""",
    "sections by their former names": """\
kind: EndpointPickerConfig
featureGates: [flowControl=false, haPopulateNonLeaderDatastore]
plugins:
- type: queue-scorer
- {type: utilization-detector, name: detector, parameters: {queueDepthThreshold: 10}}
saturationDetector: {pluginRef: detector}
parser: {pluginRef: openai-parser}
schedulingProfiles:
- {name: default, plugins: [{pluginRef: queue-scorer, weight: 1}]}
""",
    "a source of metrics with its parameters": """\
kind: EndpointPickerConfig
plugins:
- type: metrics-data-source
  parameters: {scheme: https, path: /metrics, port: 8443, insecureSkipVerify: true, interval: 50ms}
- type: core-metrics-extractor
  parameters:
    engineConfigs:
    - name: vllm
      queuedRequestsSpec: 'vllm:num_requests_waiting{engine="0"}'
      runningRequestsSpec: vllm:num_requests_running
      kvUsageSpec: vllm:kv_cache_usage_perc
      loraSpec: vllm:lora_requests_info
      cacheInfoSpec: vllm:cache_config_info
      customMetrics: [{attributeKey: preemptions, metricSpec: 'vllm:num_preemptions_total'}]
- type: queue-scorer
- type: lora-affinity-scorer
dataLayer:
  sources:
  - pluginRef: metrics-data-source
    extractors: [{pluginRef: core-metrics-extractor}]
""",
}


@pytest.mark.parametrize("form", OLDER_FORMS)
def test_documents_that_the_reference_loads_are_loaded(form: str) -> None:
    warnings = assembled(OLDER_FORMS[form]).warnings

    expected = ("deprecated", "predicted-latency-producer is not available in this version")
    assert all(any(text in warning for text in expected) for warning in warnings), warnings
