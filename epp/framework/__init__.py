"""The public contract: what a plugin may import."""

from epp.framework.data import DataType, Input, Output, Scope
from epp.framework.data_layer import (
    METRICS_PAGE,
    MODEL_LIST,
    DataSource,
    EndpointDiscovery,
    EndpointListener,
    EndpointSource,
    ExtractionError,
    Extractor,
    HttpTarget,
    KubernetesEvent,
    KubernetesExtractor,
    KubernetesSource,
    PollingSource,
)
from epp.framework.endpoint import Endpoint, EndpointId, EndpointMetrics, EndpointState
from epp.framework.errors import ConfigError, DropReason, ErrorCode, PlainRejection, Rejection
from epp.framework.flow_control import SaturationDetector
from epp.framework.headers import Headers
from epp.framework.metric_specs import CounterSpec, GaugeSpec, HistogramSpec
from epp.framework.parsed_request import Media, ParsedRequest, PromptText
from epp.framework.plugin import Parameters, Plugin, PluginContext, Stability
from epp.framework.request import InferenceRequest, InferenceResponse, TerminationCause
from epp.framework.request_control import (
    Admitter,
    DataProducer,
    PreRequest,
    RequestHeader,
    ResponseBody,
    ResponseHeader,
    ResponseMetadata,
    ResponseProgress,
    Screener,
)
from epp.framework.request_handling import Parser, ResponseReader
from epp.framework.scheduling import (
    Filter,
    MetricsScorer,
    Picker,
    ProfileHandler,
    Scorer,
    SparseScores,
)
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.framework.usage import Usage

__all__ = [
    "METRICS_PAGE",
    "MODEL_LIST",
    "Admitter",
    "ConfigError",
    "CounterSpec",
    "DataProducer",
    "DataSource",
    "DataType",
    "DropReason",
    "Endpoint",
    "EndpointDiscovery",
    "EndpointId",
    "EndpointListener",
    "EndpointMetrics",
    "EndpointSource",
    "EndpointState",
    "ErrorCode",
    "ExtractionError",
    "Extractor",
    "Filter",
    "GaugeSpec",
    "Headers",
    "HistogramSpec",
    "HttpTarget",
    "InferenceRequest",
    "InferenceResponse",
    "Input",
    "KubernetesEvent",
    "KubernetesExtractor",
    "KubernetesSource",
    "Media",
    "MetricsScorer",
    "Output",
    "Parameters",
    "ParsedRequest",
    "Parser",
    "Picker",
    "PlainRejection",
    "Plugin",
    "PluginContext",
    "PollingSource",
    "PreRequest",
    "ProfileHandler",
    "ProfileResult",
    "PromptText",
    "Rejection",
    "RequestHeader",
    "ResponseBody",
    "ResponseHeader",
    "ResponseMetadata",
    "ResponseProgress",
    "ResponseReader",
    "SaturationDetector",
    "SchedulingResult",
    "Scope",
    "Scorer",
    "Screener",
    "SparseScores",
    "Stability",
    "TerminationCause",
    "Usage",
]
