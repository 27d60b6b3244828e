"""Every bundled plugin type and the class behind it, imported when it is first named.

Plugins of others are found by entry point (group `epp.plugins`); see `epp.config.plugin_registry`.
"""

from __future__ import annotations

from collections.abc import Mapping

_PARSERS = {
    "openai-parser": "parsers.openai:OpenAIParser",
    "anthropic-parser": "parsers.anthropic:AnthropicParser",
    "passthrough-parser": "parsers.passthrough:PassthroughParser",
    "vllmhttp-parser": "parsers.vllmhttp:VllmHttpParser",
    "sglanghttp-parser": "parsers.sglanghttp:SglangHttpParser",
}
_PROFILE_HANDLERS = {
    "single-profile-handler": "profile_handlers.single:SingleProfileHandler",
    "data-parallel-profile-handler": "profile_handlers.data_parallel:DataParallelProfileHandler",
    "header-profile-handler": "profile_handlers.header:HeaderProfileHandler",
    "disagg-profile-handler": "profile_handlers.disagg:DisaggProfileHandler",
    "pd-profile-handler": "profile_handlers.pd:PdProfileHandler",
    "disagg-headers-handler": "profile_handlers.disagg_headers:DisaggHeadersHandler",
    "prefill-header-handler": "profile_handlers.disagg_headers:PrefillHeaderHandler",
    "always-disagg-pd-decider": "profile_handlers.deciders:AlwaysDisaggPdDecider",
    "always-disagg-multimodal-decider": "profile_handlers.deciders:AlwaysDisaggMultimodalDecider",
    "prefix-based-pd-decider": "profile_handlers.deciders:PrefixBasedPdDecider",
}
_PICKERS = {
    "max-score-picker": "pickers.max_score:MaxScorePicker",
    "random-picker": "pickers.random_choice:RandomPicker",
    "weighted-random-picker": "pickers.weighted_random:WeightedRandomPicker",
}
_SCORERS = {
    "queue-scorer": "scorers.queue:QueueScorer",
    "running-requests-size-scorer": "scorers.running_requests_size:RunningRequestsSizeScorer",
    "kv-cache-utilization-scorer": "scorers.kv_cache_utilization:KvCacheUtilizationScorer",
    "lora-affinity-scorer": "scorers.lora_affinity:LoraAffinityScorer",
    "prefix-cache-scorer": "scorers.prefix_cache:PrefixCacheScorer",
    "load-aware-scorer": "scorers.load_aware:LoadAwareScorer",
    "active-request-scorer": "scorers.active_request:ActiveRequestScorer",
    "token-load-scorer": "scorers.token_load:TokenLoadScorer",
    "expected-work-scorer": "scorers.expected_work:ExpectedWorkScorer",
    "no-hit-lru-scorer": "scorers.no_hit_lru:NoHitLruScorer",
    "context-length-aware": "scorers.context_length_aware:ContextLengthAware",
    "latency-scorer": "scorers.latency:LatencyScorer",
    "mm-embeddings-cache-scorer": "scorers.mm_embeddings_cache:MmEmbeddingsCacheScorer",
    "session-affinity-scorer": "scorers.session_affinity:SessionAffinityScorer",
    "header-label-affinity-scorer": "scorers.header_label_affinity:HeaderLabelAffinityScorer",
    "endpoint-attribute-scorer": "scorers.endpoint_attribute:EndpointAttributeScorer",
    "topology-affinity-scorer": "scorers.topology_affinity:TopologyAffinityScorer",
    "multicluster-queue-scorer": "scorers.multicluster:MulticlusterQueueScorer",
    "multicluster-kv-cache-utilization-scorer": (
        "scorers.multicluster:MulticlusterKvCacheUtilizationScorer"
    ),
    "multicluster-prefix-cache-scorer": "scorers.multicluster:MulticlusterPrefixCacheScorer",
}
_FILTERS = {
    "label-selector-filter": "filters.label_selector:LabelSelectorFilter",
    "by-label": "filters.by_label:ByLabelFilter",
    "by-label-selector": "filters.label_selector:ByLabelSelectorFilter",
    "decode-filter": "filters.role:DecodeFilter",
    "prefill-filter": "filters.role:PrefillFilter",
    "encode-filter": "filters.role:EncodeFilter",
    "prefix-cache-affinity-filter": "filters.prefix_cache_affinity:PrefixCacheAffinityFilter",
    "slo-headroom-tier-filter": "filters.slo_headroom_tier:SloHeadroomTierFilter",
    "session-affinity-filter": "filters.session_affinity:SessionAffinityFilter",
    "multicluster-session-affinity-filter": (
        "filters.session_affinity:MulticlusterSessionAffinityFilter"
    ),
    "endpoint-attribute-filter": "filters.endpoint_attribute:EndpointAttributeFilter",
    "topology-affinity-filter": "filters.topology_affinity:TopologyAffinityFilter",
    "utilization-filter": "filters.utilization:UtilizationFilter",
    "header-based-testing-filter": "filters.header_based_testing:HeaderBasedTestingFilter",
}
_SATURATION = {
    "utilization-detector": "saturation.utilization:UtilizationDetector",
    "concurrency-detector": "saturation.concurrency:ConcurrencyDetector",
}
_PRODUCERS = {
    "token-producer": "producers.token:TokenProducer",
    "tokenizer": "producers.token:Tokenizer",
    "approx-prefix-cache-producer": "producers.approx_prefix_cache:ApproxPrefixCacheProducer",
    "multicluster-approx-prefix-cache-producer": (
        "producers.approx_prefix_cache:MulticlusterApproxPrefixCacheProducer"
    ),
    "burst-prefix-cache-producer": "producers.burst_prefix_cache:BurstPrefixCacheProducer",
    "inflight-load-producer": "producers.inflight_load:InflightLoadProducer",
    "mm-embeddings-cache-producer": "producers.mm_embeddings_cache:MmEmbeddingsCacheProducer",
    "session-id-producer": "producers.session_id:SessionIdProducer",
    "p2p-source-producer": "producers.p2p_source:P2pSourceProducer",
}
_REQUEST_CONTROL = {
    "agent-identity": "request_hooks.agent_identity:AgentIdentity",
    "request-attribute-reporter": (
        "request_hooks.request_attribute_reporter:RequestAttributeReporter"
    ),
    "destination-endpoint-served-verifier": (
        "request_hooks.served_verifier:DestinationEndpointServedVerifier"
    ),
    "latency-slo-admitter": "admitters.latency_slo:LatencySloAdmitter",
    "probabilistic-admitter": "admitters.probabilistic:ProbabilisticAdmitter",
    "disaggregatedset-rollout-screener": (
        "screeners.disaggregatedset_rollout:DisaggregatedSetRolloutScreener"
    ),
}
_DATA_LAYER = {
    "metrics-data-source": "data_sources.metrics:MetricsDataSource",
    "models-data-source": "data_sources.models:ModelsDataSource",
    "dcgm-data-source": "data_sources.dcgm:DcgmDataSource",
    "multicluster-metrics-data-source": "data_sources.metrics:MulticlusterMetricsDataSource",
    "k8s-notification-source": "data_sources.k8s_notification:K8sNotificationSource",
    "endpoint-notification-source": "data_sources.endpoint_notification:EndpointNotificationSource",
    "file-discovery": "data_sources.file_discovery:FileDiscovery",
    "core-metrics-extractor": "extractors.core_metrics:CoreMetricsExtractor",
    "multicluster-metrics-extractor": "extractors.multicluster:MulticlusterMetricsExtractor",
    "models-data-extractor": "extractors.models:ModelsDataExtractor",
    "dcgm-extractor": "extractors.dcgm:DcgmExtractor",
    "topology-extractor": "extractors.topology:TopologyExtractor",
}

BUNDLED: Mapping[str, str] = {
    **_PARSERS,
    **_PROFILE_HANDLERS,
    **_PICKERS,
    **_SCORERS,
    **_FILTERS,
    **_SATURATION,
    **_PRODUCERS,
    **_REQUEST_CONTROL,
    **_DATA_LAYER,
}
"""Type to `module:class` below this package."""
