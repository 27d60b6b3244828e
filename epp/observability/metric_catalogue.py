"""Every metric of the process: name, labels, buckets, meaning, and the name it had before.

`llm_d_epp_*` are the reference's, kept name by name so that dashboards work unchanged; `epp_*`
are ours (decision 11). `docs/metrics.md` is generated from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from epp.framework.metric_specs import CounterSpec, GaugeSpec, HistogramSpec, MetricSpec, Twin

MODELS = ("model_name", "target_model_name")
REQUEST = (*MODELS, "fairness_id", "priority")
PLUGIN = ("extension_point", "plugin_type", "plugin_name")

LATENCY = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45,
    60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
)  # fmt: skip
LATENCY_TO_FIRST_TOKEN = tuple(bound for bound in LATENCY if bound <= 120)
SCHEDULING = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
REQUEST_BYTES = tuple(float(1 << power) for power in range(6, 31))
# 32778 is how the reference spells 32768; its series would not match ours otherwise.
TOKENS = (
    1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32778, 65536, 131072, 262144,
    524288, 1048576,
)  # fmt: skip
OUTPUT_TOKENS = TOKENS[: TOKENS.index(8192) + 1]
RESPONSE_BYTES = TOKENS[: TOKENS.index(65536) + 1]
PER_TOKEN = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
STREAMING_PER_TOKEN = (
    0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6,
    0.8, 1, 2,
)  # fmt: skip
BETWEEN_CHUNKS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2,
)  # fmt: skip
REQUEST_PROCESSING = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
)  # fmt: skip
RESPONSE_PROCESSING = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
)  # fmt: skip
SCRAPE = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
STREAM = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600)

REQUEST_TOTAL = CounterSpec(
    name="llm_d_epp_request_total",
    help="[ALPHA] Requests with a body that were given an endpoint; rejections are not counted.",
    labels=REQUEST,
    twin=Twin(name="inference_objective_request_total", keeps=(*MODELS, "priority")),
)
REQUEST_ERROR_TOTAL = CounterSpec(
    name="llm_d_epp_request_error_total",
    help="[ALPHA] Requests that ended with an error, by its code; once per request.",
    labels=(*REQUEST, "error_code"),
    expendable=REQUEST,
    twin=Twin(name="inference_objective_request_error_total", keeps=(*MODELS, "error_code")),
)
REQUEST_DURATION = HistogramSpec(
    name="llm_d_epp_request_duration_seconds",
    help="[ALPHA] Time from the request's headers to the end of its response.",
    labels=REQUEST,
    bounds=LATENCY,
    twin=Twin(name="inference_objective_request_duration_seconds", keeps=MODELS),
)
REQUEST_SIZE = HistogramSpec(
    name="llm_d_epp_request_size_bytes",
    help="[ALPHA] Size of the request body as forwarded.",
    labels=REQUEST,
    bounds=REQUEST_BYTES,
    twin=Twin(name="inference_objective_request_sizes", keeps=MODELS),
)
RESPONSE_SIZE = HistogramSpec(
    name="llm_d_epp_response_size_bytes",
    help="[ALPHA] Size of the response body.",
    labels=REQUEST,
    bounds=RESPONSE_BYTES,
    twin=Twin(name="inference_objective_response_sizes", keeps=MODELS),
)
INPUT_TOKENS = HistogramSpec(
    name="llm_d_epp_request_input_tokens",
    help="[ALPHA] Prompt tokens the model server reported, if any.",
    labels=REQUEST,
    bounds=TOKENS,
    twin=Twin(name="inference_objective_input_tokens", keeps=MODELS),
)
OUTPUT_TOKENS_GENERATED = HistogramSpec(
    name="llm_d_epp_request_output_tokens",
    help="[ALPHA] Generated tokens the model server reported, if any.",
    labels=REQUEST,
    bounds=OUTPUT_TOKENS,
    twin=Twin(name="inference_objective_output_tokens", keeps=MODELS),
)
CACHED_TOKENS = HistogramSpec(
    name="llm_d_epp_request_cached_tokens",
    help="[ALPHA] Prompt tokens served from the prefix cache, where reported; zero counts.",
    labels=REQUEST,
    bounds=TOKENS,
    twin=Twin(name="inference_objective_prompt_cached_tokens", keeps=MODELS),
)
REQUEST_RUNNING = GaugeSpec(
    name="llm_d_epp_request_running",
    help="[ALPHA] Requests handed to the gateway whose stream is open; those with a model name.",
    labels=REQUEST,
    twin=Twin(name="inference_objective_running_requests", keeps=("model_name",)),
)
REQUEST_NTPOT = HistogramSpec(
    name="llm_d_epp_request_ntpot_seconds",
    help="[ALPHA] Duration of a request divided by its generated tokens.",
    labels=REQUEST,
    bounds=PER_TOKEN,
    twin=Twin(name="inference_objective_normalized_time_per_output_token_seconds", keeps=MODELS),
)
REQUEST_TTFT = HistogramSpec(
    name="llm_d_epp_request_ttft_seconds",
    help="[ALPHA] Time from the request's headers to the first byte of the response body.",
    labels=(*REQUEST, "streaming"),
    bounds=LATENCY_TO_FIRST_TOKEN,
)
REQUEST_TPOT = HistogramSpec(
    name="llm_d_epp_request_streaming_tpot_seconds",
    help="[ALPHA] Time per token after the first one, of streamed responses.",
    labels=REQUEST,
    bounds=STREAMING_PER_TOKEN,
)
REQUEST_ITL = HistogramSpec(
    name="llm_d_epp_request_streaming_itl_seconds",
    help="[ALPHA] Gap between consecutive pieces of a streamed response body.",
    labels=REQUEST,
    bounds=BETWEEN_CHUNKS,
)
REQUEST_PROCESSING_DURATION = HistogramSpec(
    name="llm_d_epp_request_processing_duration_seconds",
    help="[ALPHA] Time from receipt of a request to its answer, rejections and waiting included.",
    bounds=REQUEST_PROCESSING,
)
RESPONSE_PROCESSING_DURATION = HistogramSpec(
    name="llm_d_epp_response_processing_duration_seconds",
    help="[ALPHA] Time spent on handling a response.",
    bounds=RESPONSE_PROCESSING,
)

SCHEDULER_E2E = HistogramSpec(
    name="llm_d_epp_scheduler_e2e_duration_seconds",
    help="[ALPHA] Time the scheduler took to decide.",
    bounds=SCHEDULING,
    twin=Twin(name="inference_extension_scheduler_e2e_duration_seconds"),
)
SCHEDULER_ATTEMPTS = CounterSpec(
    name="llm_d_epp_scheduler_attempts_total",
    help="[ALPHA] Decisions of the scheduler: success with the endpoint picked, or failure.",
    labels=("status", "target_model_name", "endpoint_name", "namespace", "port"),
    expendable=("target_model_name",),
    twin=Twin(
        name="inference_extension_scheduler_attempts_total",
        keeps=("status", "target_model_name", "endpoint_name", "namespace", "port"),
        renamed=("status", "target_model_name", "pod_name", "namespace", "port"),
    ),
)
PLUGIN_DURATION = HistogramSpec(
    name="llm_d_epp_plugin_duration_seconds",
    help="[ALPHA] Time one call of a plugin took; ResponseParsing is all of one response.",
    labels=PLUGIN,
    bounds=SCHEDULING,
    twin=Twin(name="inference_extension_plugin_duration_seconds", keeps=PLUGIN),
)
INFO = GaugeSpec(
    name="llm_d_epp_info",
    help="[ALPHA] Always 1; the labels tell the version, and the commit where an image knows it.",
    labels=("commit", "build_ref"),
    twin=Twin(name="inference_extension_info", keeps=("commit", "build_ref")),
)
READY_ENDPOINTS = GaugeSpec(
    name="llm_d_epp_ready_endpoints",
    help="[ALPHA] Endpoints of the pool with fresh metrics; all, where none are scraped.",
    labels=("name",),
    twin=Twin(name="inference_pool_ready_pods", keeps=("name",)),
)

POOL = ("name",)
AVERAGE_KV_CACHE = GaugeSpec(
    name="llm_d_epp_average_kv_cache_utilization",
    help="[ALPHA] Mean share of the KV cache in use, over endpoints with fresh metrics.",
    labels=POOL,
    twin=Twin(name="inference_pool_average_kv_cache_utilization", keeps=POOL),
)
AVERAGE_QUEUE_SIZE = GaugeSpec(
    name="llm_d_epp_average_queue_size",
    help="[ALPHA] Mean number of requests waiting, over endpoints with fresh metrics.",
    labels=POOL,
    twin=Twin(name="inference_pool_average_queue_size", keeps=POOL),
)
AVERAGE_RUNNING = GaugeSpec(
    name="llm_d_epp_average_running_requests",
    help="[ALPHA] Mean number of requests running, over endpoints with fresh metrics.",
    labels=POOL,
    twin=Twin(name="inference_pool_average_running_requests", keeps=POOL),
)
STD_DEV_KV_CACHE = GaugeSpec(
    name="llm_d_epp_std_dev_kv_cache_utilization",
    help="[ALPHA] Sample deviation of the share of the KV cache in use.",
    labels=POOL,
)
STD_DEV_QUEUE_SIZE = GaugeSpec(
    name="llm_d_epp_std_dev_queue_size",
    help="[ALPHA] Sample deviation of the number of requests waiting.",
    labels=POOL,
)
STD_DEV_RUNNING = GaugeSpec(
    name="llm_d_epp_std_dev_running_requests",
    help="[ALPHA] Sample deviation of the number of requests running.",
    labels=POOL,
)
PER_ENDPOINT_QUEUE_SIZE = GaugeSpec(
    name="llm_d_epp_per_endpoint_queue_size",
    help="[ALPHA] Requests waiting at an endpoint, as last reported; 0 while it is stale.",
    labels=("name", "model_server_endpoint"),
    twin=Twin(
        name="inference_pool_per_pod_queue_size",
        keeps=("name", "model_server_endpoint"),
        renamed=("name", "model_server_pod"),
    ),
)

POLL_ERRORS = CounterSpec(
    name="llm_d_epp_datalayer_poll_errors_total",
    help="[ALPHA] Scrapes that brought no page.",
    labels=("source_type",),
    twin=Twin(name="llm_d_inference_scheduler_datalayer_poll_errors_total", keeps=("source_type",)),
)
EXTRACT_ERRORS = CounterSpec(
    name="llm_d_epp_datalayer_extract_errors_total",
    help="[ALPHA] Values that were missing on a page or could not be read, and failed extractors.",
    labels=("source_type", "extractor_type"),
    twin=Twin(
        name="llm_d_inference_scheduler_datalayer_extract_errors_total",
        keeps=("source_type", "extractor_type"),
    ),
)
SCRAPE_DURATION = HistogramSpec(
    name="epp_scrape_duration_seconds",
    help="[ALPHA] Time from asking an endpoint for a page to having it, looked for every 2 ms.",
    labels=("source_type",),
    bounds=SCRAPE,
)
SCRAPE_INTERVAL = GaugeSpec(
    name="epp_scrape_interval_seconds",
    help="[ALPHA] Pause between scrapes of an endpoint now: grows while idle and with the pool.",
    labels=("source_type",),
)
STALE_ENDPOINTS = GaugeSpec(
    name="epp_stale_endpoints",
    help="[ALPHA] Endpoints of the pool whose metrics are too old to be believed.",
)

STREAMS_INFLIGHT = GaugeSpec(
    name="llm_d_epp_extproc_streams_inflight", help="[ALPHA] ext_proc streams that are open."
)
STREAM_DURATION = HistogramSpec(
    name="llm_d_epp_extproc_stream_duration_seconds",
    help="[ALPHA] How long an ext_proc stream was open.",
    bounds=STREAM,
)
STREAMS_TOTAL = CounterSpec(
    name="llm_d_epp_extproc_streams_total",
    help="[ALPHA] ext_proc streams that ended, by gRPC status code as Go names it.",
    labels=("code",),
)

REJECTED = CounterSpec(
    name="epp_requests_rejected_total",
    help="[ALPHA] Requests answered with an error of our own: HTTP status, and why.",
    labels=("code", "reason"),
)
RESPONSES = CounterSpec(
    name="epp_responses_total",
    help="[ALPHA] Responses that were seen, by the class of their status.",
    labels=("code_class",),
)
TERMINATIONS = CounterSpec(
    name="epp_request_terminations_total",
    help="[ALPHA] What ended requests that had an endpoint.",
    labels=("cause",),
)
FAIL_OPEN = CounterSpec(
    name="epp_fail_open_total",
    help="[ALPHA] Requests that went on without a regular decision, because the pool fails open.",
    labels=("reason",),
)
REQUESTS_IN_FLIGHT = GaugeSpec(
    name="epp_requests_in_flight",
    help="[ALPHA] Requests that were sent on and are not over, those without a model included.",
)
BUFFERED_BYTES = GaugeSpec(
    name="epp_buffered_bytes", help="[ALPHA] Body bytes held in memory over all requests."
)
OVERLOAD = CounterSpec(
    name="epp_overload_total",
    help="[ALPHA] Requests cut short because this process is overloaded: the limit, and the end.",
    labels=("signal", "outcome"),
)
CONNECTION_LIMITS = CounterSpec(
    name="epp_connection_limits_total",
    help=(
        "[ALPHA] How often a limit on connections held: one was closed (connections, handshakes),"
        " had to wait (handshake-rate; resources: for open files), or failed in its TLS handshake"
        " or its time (handshake)."
    ),
    labels=("port", "limit"),
)
EVENT_LOOP_LAG = GaugeSpec(
    name="epp_event_loop_lag_seconds", help="[ALPHA] How late the event loop lately ran a timer."
)
ASYNCIO_TASKS = GaugeSpec(
    name="epp_asyncio_tasks", help="[ALPHA] Tasks of the event loop that have not ended."
)
IGNORED_MESSAGES = CounterSpec(
    name="epp_extproc_ignored_messages_total",
    help="[ALPHA] Messages of the gateway that had no meaning in their place.",
    labels=("kind",),
)
RESPONSE_PHASE_ERRORS = CounterSpec(
    name="epp_response_phase_errors_total",
    help="[ALPHA] Errors while a response was handled; its bytes went through unchanged.",
)
PLUGIN_ERRORS = CounterSpec(
    name="epp_plugin_errors_total", help="[ALPHA] Calls of a plugin that failed.", labels=PLUGIN
)
PLUGINS_SWITCHED_OFF = CounterSpec(
    name="epp_plugins_switched_off_total",
    help="[ALPHA] Plugins that are not called any more: their calls held up all requests.",
    labels=("plugin_type", "plugin_name"),
)
POOL_FILE_ERRORS = CounterSpec(
    name="epp_pool_file_errors_total",
    help="[ALPHA] Mistakes in the pool file: the whole document, or one entry that was skipped.",
    labels=("kind",),
)
ENDPOINT_ERRORS = CounterSpec(
    name="epp_endpoint_errors_total",
    help="[ALPHA] Requests that an endpoint answered with 5xx (501 apart), or not at all.",
    labels=("endpoint_name", "namespace", "port"),
)
ENDPOINT_EJECTIONS = CounterSpec(
    name="epp_endpoint_ejections_total",
    help="[ALPHA] Ejections of endpoints that answered with errors again and again.",
)
EJECTED_ENDPOINTS = GaugeSpec(
    name="epp_ejected_endpoints",
    help="[ALPHA] Endpoints that are left out: their ejection lasts, or one request probes them.",
)
CONFIG_RELOADS = CounterSpec(
    name="epp_config_reloads_total",
    help="[ALPHA] Changed versions of the configuration file: taken over, or refused.",
    labels=("outcome",),
)
CONFIG_UP_TO_DATE = GaugeSpec(
    name="epp_config_up_to_date",
    help="[ALPHA] 1 while the configuration as it is now is in force, 0 while an older one is.",
)
POOL_RELOADS = CounterSpec(
    name="epp_pool_reloads_total",
    help="[ALPHA] Readings of the pool: success, or failure that kept the last good one.",
    labels=("outcome",),
)
POOL_FILE_UP_TO_DATE = GaugeSpec(
    name="epp_pool_file_up_to_date",
    help="[ALPHA] 1 while the pool file as it is now is in force, 0 while an older one is;"
    " absent without such a file.",
)
READY = GaugeSpec(name="epp_ready", help="[ALPHA] 1 while health checks say SERVING, else 0.")
ENDPOINTS = GaugeSpec(name="epp_endpoints", help="[ALPHA] Endpoints known to this process.")
POOL_PROBLEMS = CounterSpec(
    name="epp_pool_problems_total",
    help="[ALPHA] How the InferencePool failed us: invalid, the last good one stays; or gone.",
    labels=("kind",),
)
UNMATCHED_PODS = GaugeSpec(
    name="epp_unmatched_pods",
    help="[ALPHA] Pods of the pool without an endpoint; `epp pool show` tells why.",
)
EVENTS = CounterSpec(
    name="epp_kubernetes_events_total",
    help="[ALPHA] Kubernetes Events about the pool, with --emit-events: written, or failed.",
    labels=("outcome",),
)
SCRAPES_REFUSED = CounterSpec(
    name="epp_metrics_port_rejections_total",
    help="[ALPHA] Requests to the metrics port that were refused, with --metrics-endpoint-auth.",
    labels=("reason",),
)
LEADER = GaugeSpec(
    name="epp_leader",
    help="[ALPHA] With --ha-enable-leader-election, 1 while this replica leads, else 0.",
)

INFORMER_SYNCED = GaugeSpec(
    name="epp_informer_synced",
    help="[ALPHA] 1 once everything the API server knows of the resource has been read.",
    labels=("resource",),
)
INFORMER_LAST_CONTACT = GaugeSpec(
    name="epp_informer_last_contact_seconds",
    help="[ALPHA] Time since the API server was last heard of. Minutes are normal while all rests.",
    labels=("resource",),
)
INFORMER_RELISTS = CounterSpec(
    name="epp_informer_relists_total",
    help="[ALPHA] How often everything was read anew, and why.",
    labels=("resource", "reason"),
)
INFORMER_WATCH_ERRORS = CounterSpec(
    name="epp_informer_watch_errors_total",
    help="[ALPHA] Errors while the resource was listed or watched.",
    labels=("resource", "kind"),
)
INFORMER_EVENTS = CounterSpec(
    name="epp_informer_events_total",
    help="[ALPHA] What watches told.",
    labels=("resource", "type"),
)
INFORMER_REPAIRS = CounterSpec(
    name="epp_informer_repairs_total",
    help="[ALPHA] Changes found by reading everything that a watch should have told. Not 0: a bug.",
    labels=("resource",),
)
SPANS_LOST = CounterSpec(
    name="epp_spans_lost_total",
    help="[ALPHA] Spans of traces that were lost: the queue was full, or the collector did not take"
    " them; absent without tracing.",
    labels=("reason",),
)
GAUGE_UNDERFLOWS = CounterSpec(
    name="epp_gauge_underflows_total",
    help="[ALPHA] Decrements that would have taken a gauge below zero. Not 0: a bug of ours.",
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the catalogue."""

    title: str
    metrics: tuple[MetricSpec, ...]


CATALOGUE = (
    Section(
        "Requests and latency",
        (
            REQUEST_TOTAL,
            REQUEST_ERROR_TOTAL,
            REQUEST_DURATION,
            REQUEST_SIZE,
            RESPONSE_SIZE,
            INPUT_TOKENS,
            OUTPUT_TOKENS_GENERATED,
            CACHED_TOKENS,
            REQUEST_RUNNING,
            REQUEST_NTPOT,
            REQUEST_TTFT,
            REQUEST_TPOT,
            REQUEST_ITL,
            REQUEST_PROCESSING_DURATION,
            RESPONSE_PROCESSING_DURATION,
        ),
    ),
    Section(
        "Scheduler, plugins, pool, build",
        (SCHEDULER_E2E, SCHEDULER_ATTEMPTS, PLUGIN_DURATION, INFO, READY_ENDPOINTS),
    ),
    Section(
        "Model servers",
        (
            AVERAGE_KV_CACHE,
            AVERAGE_QUEUE_SIZE,
            AVERAGE_RUNNING,
            STD_DEV_KV_CACHE,
            STD_DEV_QUEUE_SIZE,
            STD_DEV_RUNNING,
            PER_ENDPOINT_QUEUE_SIZE,
            POLL_ERRORS,
            EXTRACT_ERRORS,
            SCRAPE_DURATION,
            SCRAPE_INTERVAL,
            STALE_ENDPOINTS,
        ),
    ),
    Section(
        "ext_proc streams, with `--enable-grpc-stream-metrics`",
        (STREAMS_INFLIGHT, STREAM_DURATION, STREAMS_TOTAL),
    ),
    Section(
        "Beyond the reference",
        (
            REJECTED,
            RESPONSES,
            TERMINATIONS,
            FAIL_OPEN,
            REQUESTS_IN_FLIGHT,
            BUFFERED_BYTES,
            OVERLOAD,
            CONNECTION_LIMITS,
            EVENT_LOOP_LAG,
            ASYNCIO_TASKS,
            IGNORED_MESSAGES,
            RESPONSE_PHASE_ERRORS,
            PLUGIN_ERRORS,
            PLUGINS_SWITCHED_OFF,
            POOL_FILE_ERRORS,
            POOL_RELOADS,
            POOL_FILE_UP_TO_DATE,
            CONFIG_RELOADS,
            CONFIG_UP_TO_DATE,
            ENDPOINT_ERRORS,
            ENDPOINT_EJECTIONS,
            EJECTED_ENDPOINTS,
            READY,
            ENDPOINTS,
            UNMATCHED_PODS,
            SPANS_LOST,
            GAUGE_UNDERFLOWS,
        ),
    ),
    Section(
        "Kubernetes",
        (
            POOL_PROBLEMS,
            LEADER,
            INFORMER_SYNCED,
            INFORMER_LAST_CONTACT,
            INFORMER_RELISTS,
            INFORMER_WATCH_ERRORS,
            INFORMER_EVENTS,
            INFORMER_REPAIRS,
            SCRAPES_REFUSED,
            EVENTS,
        ),
    ),
)
