"""Types, stability and parameters of the reference (scheduling §7 to §14, datalayer §3 to §7)."""

from __future__ import annotations

from typing import Any

import pytest

from epp.config.plugin_registry import PluginRegistry
from epp.config.unavailable import UNAVAILABLE
from epp.framework.plugin import parameters_of
from epp.plugins.catalogue import BUNDLED

REQUIRED = "required"
NONE: dict[str, Any] = {}
UNCHECKED: dict[str, Any] = {"": "of a type that is not built"}
REGISTRY = PluginRegistry()

PICKER = {"maxNumOfEndpoints": 1}
PREFIX_SCORER = {
    "prefixMatchInfoProducerName": "",
    "matchLengthWeight": 0.0,
    "matchLengthScaleTokens": 8192,
}
SELECTOR: dict[str, Any] = {"matchLabels": {}, "matchExpressions": []}
SESSIONS = {
    "strategy": "encoded_endpoint_header",
    "profileName": "",
    "encodedEndpointHeaderConfig": {"header": "x-session-token"},
    "sessionIdConfig": {
        "sources": [{"header": "x-session-id", "attribute": "", "producer": ""}],
        "evictionTtlSeconds": 300.0,
        "evictionSweepSeconds": 10.0,
    },
}
APPROX = {
    "autoTune": True,
    "blockSizeTokens": 16,
    "blockSize": 0,
    "maxPrefixTokensToMatch": 131072,
    "maxPrefixBlocksToMatch": 2048,
    "lruCapacityPerServer": 31250,
}
TOKENS = {"estimate": None, "vllm": None, "modelName": "", "udsTokenizerConfig": None}
SIDECAR_HEADERS = {"prefillProfile": "prefill", "encodeProfile": "encode"}
HTTP = {"scheme": "http", "insecureSkipVerify": True, "interval": None}
TLS = {**HTTP, "caCertPath": None, "clientCertPath": None, "clientKeyPath": None}

BETA: dict[str, dict[str, Any]] = {
    "single-profile-handler": NONE,
    "disagg-profile-handler": {
        "stageOrder": "decode-first",
        "profiles": {"decode": "", "prefill": "", "encode": ""},
        "deciders": {"prefill": "", "encode": ""},
        "decodeProfile": "",
        "prefillProfile": "",
        "encodeProfile": "",
        "prefillDeciderPluginName": "",
        "deciderPluginName": "",
        "encodeDeciderPluginName": "",
    },
    "data-parallel-profile-handler": {"primaryPort": 8000},
    "always-disagg-pd-decider": NONE,
    "always-disagg-multimodal-decider": NONE,
    "prefix-based-pd-decider": {"nonCachedTokens": 0, "promptTokens": 0},
    "label-selector-filter": SELECTOR,
    "decode-filter": NONE,
    "prefill-filter": NONE,
    "encode-filter": NONE,
    "prefix-cache-affinity-filter": {
        "affinityThreshold": 0.8,
        "explorationProbability": 0.0,
        "maxTTFTPenaltyMs": 18000.0,
        "ttftSource": "prefillThroughput",
        "peakPrefillThroughput": 15928.0,
        "prefixMatchInfoProducerName": "",
        "latencyPredictionInfoProducerName": "",
        "inFlightLoadProducerName": "",
    },
    "slo-headroom-tier-filter": {
        "epsilonExploreNeg": 0.01,
        "latencyPredictionInfoProducerName": "",
    },
    "header-based-testing-filter": NONE,
    "context-length-aware": {"label": "llm-d.ai/context-length-range", "enableFiltering": False},
    "utilization-detector": {
        "queueDepthThreshold": 5,
        "kvCacheUtilThreshold": 0.8,
        "metricsStalenessThreshold": "200ms",
        "headroom": 0.0,
    },
    "concurrency-detector": {
        "maxConcurrency": 100,
        "maxTokenConcurrency": 1_000_000,
        "concurrencyMode": "requests",
        "headroom": 0.0,
        "inFlightLoadProducerName": "",
    },
    "queue-scorer": NONE,
    "kv-cache-utilization-scorer": NONE,
    "running-requests-size-scorer": NONE,
    "lora-affinity-scorer": NONE,
    "prefix-cache-scorer": PREFIX_SCORER,
    "load-aware-scorer": {"threshold": 128},
    "active-request-scorer": {
        "idleThreshold": 0,
        "maxBusyScore": 1.0,
        "inFlightLoadProducerName": "",
        "requestTimeout": "",
    },
    "token-load-scorer": {"queueThresholdTokens": 4_194_304, "inFlightLoadProducerName": ""},
    "no-hit-lru-scorer": {
        "lruSize": 1024,
        "prefixMatchInfoProducerName": "",
        "prefixPluginType": "",
        "prefixPluginName": "",
    },
    "latency-scorer": {
        "ttftWeight": 0.8,
        "tpotWeight": 0.2,
        "headroomSelectionStrategy": "least",
        "compositeKVWeight": 1.0,
        "compositeQueueWeight": 1.0,
        "compositePrefixWeight": 1.0,
        "latencyPredictionInfoProducerName": "",
        "prefixMatchInfoProducerName": "",
    },
    "mm-embeddings-cache-scorer": {"producerName": ""},
    "precise-prefix-cache-scorer": UNCHECKED,
    "max-score-picker": PICKER,
    "weighted-random-picker": PICKER,
    "random-picker": PICKER,
    "token-producer": TOKENS,
    "approx-prefix-cache-producer": APPROX,
    "precise-prefix-cache-producer": UNCHECKED,
    "inflight-load-producer": {
        "addEstimatedOutputTokens": False,
        "outputRatio": 1.5,
        "maxEstimatedOutputTokens": None,
        "prefixMatchInfoProducerName": "",
        "syncCrossReplicaState": True,
    },
    "predicted-latency-producer": UNCHECKED,
    "mm-embeddings-cache-producer": {"cacheSizeInMBPerServer": 4096},
    "session-id-producer": {"headerName": "", "cookieName": ""},
    "latency-slo-admitter": {"latencyPredictionInfoProducerName": ""},
    "probabilistic-admitter": {
        "queueDepthThreshold": 5,
        "kvCacheUtilThreshold": 0.8,
        "power": 5.0,
        "k": 300.0,
    },
    "request-attribute-reporter": {"attributes": REQUIRED},
    "destination-endpoint-served-verifier": NONE,
    "openai-parser": NONE,
    "anthropic-parser": NONE,
    "vllmhttp-parser": NONE,
    "vllmgrpc-parser": UNCHECKED,
    "sglanghttp-parser": NONE,
    "vertexai-parser": UNCHECKED,
    "passthrough-parser": NONE,
    # The path that is left out is /metrics, but for engines that have it elsewhere.
    "metrics-data-source": {**TLS, "path": None, "port": None},
    "core-metrics-extractor": {
        "engineLabelKey": "llm-d.ai/engine-type",
        "defaultEngine": "vllm",
        "engineConfigs": [],
    },
    "models-data-source": {**TLS, "path": "/v1/models"},
    "models-data-extractor": NONE,
    "k8s-notification-source": {"group": "", "version": REQUIRED, "kind": REQUIRED},
    "endpoint-notification-source": NONE,
    "file-discovery": {"path": REQUIRED, "watchFile": False},
    "fcfs-ordering-policy": UNCHECKED,
    "edf-ordering-policy": UNCHECKED,
    "slo-deadline-ordering-policy": UNCHECKED,
    "global-strict-fairness-policy": UNCHECKED,
    "round-robin-fairness-policy": UNCHECKED,
    "program-aware-fairness": UNCHECKED,
    "static-usage-limit-policy": UNCHECKED,
}
ALPHA: dict[str, dict[str, Any]] = {
    "header-profile-handler": {"headerName": "EPP-Profile", "defaultProfile": "decode"},
    "session-affinity-filter": SESSIONS,
    "multicluster-session-affinity-filter": SESSIONS,
    "session-affinity-scorer": SESSIONS,
    "endpoint-attribute-filter": {
        "attribute": REQUIRED,
        "producer": None,
        "onMissing": "Pass",
        "fallbackOnEmpty": False,
        "algorithm": REQUIRED,
    },
    "topology-affinity-filter": {"minAffinity": "host", "topologyProducerName": ""},
    "utilization-filter": {
        "conditions": REQUIRED,
        "fallbackOnEmpty": False,
        "inFlightLoadProducerName": "",
    },
    "header-label-affinity-scorer": {"headerName": REQUIRED, "labelKey": REQUIRED},
    "endpoint-attribute-scorer": {
        "attributeKey": REQUIRED,
        "producer": None,
        "algorithm": REQUIRED,
    },
    "topology-affinity-scorer": {"topologyProducerName": ""},
    "multicluster-queue-scorer": NONE,
    "multicluster-kv-cache-utilization-scorer": NONE,
    "multicluster-prefix-cache-scorer": PREFIX_SCORER,
    "burst-prefix-cache-producer": {
        "windowDurationMs": 100,
        "maxPerReplica": -1,
        "blockSizeTokens": 64,
        "maxPrefixTokensToMatch": 0,
        "minColocateBlocks": 0,
        "maxBatchSize": 1000,
        "balanceBy": "requests",
    },
    "p2p-source-producer": {
        "prefixMatchInfoProducerName": "",
        "minCachedTokenDelta": 1,
        "prefillProfileName": "prefill",
    },
    "multicluster-approx-prefix-cache-producer": APPROX,
    "disaggregatedset-rollout-screener": {
        "scope": REQUIRED,
        "headerSelectors": [],
        "revisionGating": REQUIRED,
    },
    "agent-identity": {"additionalSessionHeaders": []},
    "topology-extractor": {
        "hostname": "kubernetes.io/hostname",
        "rack": "topology.kubernetes.io/rack",
        "zone": "topology.kubernetes.io/zone",
        "region": "topology.kubernetes.io/region",
    },
    "dcgm-data-source": {**HTTP, "path": "/metrics", "port": 9400, "useNodeAddress": False},
    "dcgm-extractor": NONE,
    "multicluster-metrics-data-source": {
        **TLS,
        "scheme": "https",
        "insecureSkipVerify": False,
        "path": "/metrics",
        "port": None,
    },
    "multicluster-metrics-extractor": {
        "kvCacheUtilizationMetric": "llm_d_epp_average_kv_cache_utilization",
        "queueSizeMetric": "llm_d_epp_average_queue_size",
    },
    "multicluster-file-discovery": UNCHECKED,
    "priority-holdback-policy": UNCHECKED,
    "soft-reflective-ceiling-policy": UNCHECKED,
    "sheddable-eviction-filter": UNCHECKED,
    "priority-then-time-eviction-order-policy": UNCHECKED,
}
DEPRECATED: dict[str, dict[str, Any]] = {
    "pd-profile-handler": {
        "decodeProfile": "decode",
        "prefillProfile": "prefill",
        "deciderPluginName": "prefix-based-pd-decider",
        "primaryPort": 0,
        "prefixMatchInfoProducerName": "",
        "prefixPluginType": "",
        "prefixPluginName": "",
    },
    "by-label": {"label": REQUIRED, "validValues": [], "allowsNoLabel": False},
    "by-label-selector": SELECTOR,
    "tokenizer": TOKENS,
    "disagg-headers-handler": SIDECAR_HEADERS,
    "prefill-header-handler": SIDECAR_HEADERS,
}
REFERENCE = {
    **{name: ("Beta", parameters) for name, parameters in BETA.items()},
    **{name: ("Alpha", parameters) for name, parameters in ALPHA.items()},
    **{name: ("Deprecated", parameters) for name, parameters in DEPRECATED.items()},
}
AVAILABLE = sorted(REFERENCE.keys() & BUNDLED.keys())

OURS = {
    "approx-prefix-cache-producer": {"maxIndexEntries"},
    "multicluster-approx-prefix-cache-producer": {"maxIndexEntries"},
    "core-metrics-extractor": {"aggregation"},
    "disagg-profile-handler": {"allowDecodeOnly"},
    "metrics-data-source": {"enginePaths", "engineLabelKey"},
    "pd-profile-handler": {"allowDecodeOnly"},
    "prefix-based-pd-decider": {"prefixMatchInfoProducerName"},
}
"""Parameters that the reference does not have."""

LOOKS_AT_NO_PARAMETERS = {
    "queue-scorer",
    "kv-cache-utilization-scorer",
    "lora-affinity-scorer",
    "running-requests-size-scorer",
    "single-profile-handler",
    "decode-filter",
    "prefill-filter",
    "encode-filter",
    "always-disagg-pd-decider",
    "always-disagg-multimodal-decider",
    "endpoint-notification-source",
    "dcgm-extractor",
    "models-data-extractor",
    "header-based-testing-filter",
}
"""Where anything may be written (scheduling §1.2)."""

PLUGIN = ("plugin_name", "plugin_type")
TYPE_FIRST = ("plugin_type", "plugin_name")
IN_FLIGHT = ("endpoint_name", "namespace", "producer_name", "fairness_id", "priority")
DECISION = (*PLUGIN, "model_name", "decision_type")
TENTHS = tuple(tenth / 10 for tenth in range(11))
BYTES = (0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
SERIES = {
    "prefix_indexer_size": ("gauge", PLUGIN, (), "inference_extension_prefix_indexer_size"),
    "prefix_indexer_hit_ratio": (
        "histogram",
        PLUGIN,
        TENTHS,
        "inference_extension_prefix_indexer_hit_ratio",
    ),
    "prefix_indexer_hit_bytes": (
        "histogram",
        PLUGIN,
        BYTES,
        "inference_extension_prefix_indexer_hit_bytes",
    ),
    "inflight_requests": ("gauge", IN_FLIGHT, (), ""),
    "inflight_tokens": ("gauge", IN_FLIGHT, (), ""),
    "encoder_cache_queries_total": ("counter", (*TYPE_FIRST, "modality"), (), ""),
    "encoder_cache_hits_total": ("counter", (*TYPE_FIRST, "modality", "pod"), (), ""),
    "encoder_cache_hit_ratio": ("histogram", TYPE_FIRST, TENTHS, ""),
    "disagg_decision_total": (
        "counter",
        DECISION,
        (),
        "llm_d_inference_scheduler_disagg_decision_total",
    ),
    "pd_decision_total": ("counter", DECISION, (), "llm_d_inference_scheduler_pd_decision_total"),
    "disaggregatedset_strict_header_no_match_total": (
        "counter",
        (*TYPE_FIRST, "selector"),
        (),
        "",
    ),
    "disaggregatedset_revision_gating_share": (
        "gauge",
        (*TYPE_FIRST, "mode", "revision"),
        (),
        "",
    ),
}
"""Series of plugins (operations §1): kind, labels, buckets, former name."""


def parameters(plugin_type: str) -> dict[str, Any]:
    """Parameters of a type with their defaults, as they are written."""
    schema = parameters_of(REGISTRY.find(plugin_type))
    if schema is None:
        return {}
    required = {
        field.alias or name: REQUIRED
        for name, field in schema.model_fields.items()
        if field.is_required()
    }
    given: Any = schema.model_construct()
    return {**given.model_dump(by_alias=True, mode="json", warnings=False), **required}


def test_every_type_of_the_reference_is_there_or_named_as_unavailable() -> None:
    assert REFERENCE.keys() - BUNDLED.keys() == UNAVAILABLE - BUNDLED.keys()


@pytest.mark.parametrize("plugin_type", AVAILABLE)
def test_stability_is_the_references(plugin_type: str) -> None:
    kind = REGISTRY.find(plugin_type)

    assert kind.stability == REFERENCE[plugin_type][0]
    assert bool(kind.replaced_by) == (kind.stability == "Deprecated")


@pytest.mark.parametrize(
    "plugin_type", [name for name in AVAILABLE if REFERENCE[name][1] is not UNCHECKED]
)
def test_parameters_and_their_defaults_are_the_references(plugin_type: str) -> None:
    ours = OURS.get(plugin_type, set())
    found = parameters(plugin_type)

    assert ours <= found.keys()
    assert {name: value for name, value in found.items() if name not in ours} == (
        REFERENCE[plugin_type][1]
    )


def test_parameters_are_ignored_where_the_reference_never_looks() -> None:
    ignoring = {name for name in AVAILABLE if REGISTRY.find(name).ignores_parameters}

    assert ignoring == LOOKS_AT_NO_PARAMETERS


def test_series_of_plugins_are_the_references() -> None:
    specs = {spec.name: spec for name in AVAILABLE for spec in REGISTRY.find(name).metrics}
    found = {
        name: (spec.type, spec.labels, spec.buckets, spec.twin.name if spec.twin else "")
        for name, spec in specs.items()
    }

    assert {name: found.get(f"llm_d_epp_{name}") for name in SERIES} == SERIES


def test_former_names_of_series_have_the_labels_they_had() -> None:
    twins = [spec.twin for name in AVAILABLE for spec in REGISTRY.find(name).metrics if spec.twin]

    for twin in twins:
        has_labels = twin.name.startswith("llm_d_inference_scheduler_")
        assert twin.labels == (("model_name", "decision_type") if has_labels else ())
