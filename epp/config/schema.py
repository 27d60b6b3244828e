"""The EndpointPickerConfig document as it is written, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from epp.config.envelope_values import Duration, Quantity

API_VERSION = "llm-d.ai/v1alpha1"
OLDER_API_VERSION = "inference.networking.x-k8s.io/v1alpha1"
KIND = "EndpointPickerConfig"
MOST = 1000
"""Entries of any list."""


class Section(BaseModel):
    """Base of every part of the document: exact names, exact types.

    What is required has a default all the same: it is asked for once everything is read, so that
    one mistake doesn't hide the others.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
    )
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Names that are looked for here, and the plugin type that has them."""


def _required(*names: str) -> ConfigDict:
    return ConfigDict(json_schema_extra={"required": list(names)})


class PluginReference(Section):
    """An instance, by name."""

    model_config = _required("pluginRef")

    plugin_ref: str = Field("", description="Name of a plugin of this document.")


class SaturationDetectorReference(PluginReference):
    """The saturation detector, by name."""

    # They stood here before detectors were plugins, and documents in use still say so.
    elsewhere = dict.fromkeys(
        ("queueDepthThreshold", "kvCacheUtilThreshold", "metricsStalenessThreshold"),
        "utilization-detector",
    )


class PluginSpec(Section):
    """An instance of a plugin type."""

    model_config = _required("type")

    name: str = Field("", description="Name of the instance; default: its type.")
    type: str = Field("", description="Plugin type, as `epp plugins list` prints it.")
    parameters: dict[str, Any] | None = Field(
        None, description="Parameters of the type, as `epp plugins show TYPE` explains them."
    )


class WeightedReference(PluginReference):
    """A plugin of a profile."""

    weight: float | None = Field(None, description="Of a scorer; default 1.")


class SchedulingProfileSpec(Section):
    """Filters, scorers and a picker that work together."""

    model_config = _required("name")

    name: str = Field("", description="Name by which the profile handler knows it.")
    plugins: list[WeightedReference] = Field(
        [], max_length=MOST, description="Filters run in this order; at most one is a picker."
    )


class DataSourceSpec(PluginReference):
    """A data source and what reads its answers."""

    extractors: list[PluginReference] = Field(
        [], max_length=MOST, description="Extractors of the source."
    )


class DataLayerSpec(Section):
    """Where data about endpoints come from, and the endpoints themselves."""

    inject_defaults: bool = Field(
        True, description="Whether metrics-data-source with core-metrics-extractor is added."
    )
    sources: list[DataSourceSpec] = Field([], max_length=MOST, description="Data sources.")
    discovery: PluginReference | None = Field(
        None, description="Plugin that finds the endpoints, in place of Kubernetes."
    )
    peer_discovery: PluginReference | None = Field(None, description="Without effect.")
    cross_replica_syncer_plugin_ref: str | None = Field(None, description="Without effect.")
    cross_replica_sync_interval: Duration | None = Field(None, description="Without effect.")


class RequestHandlerSpec(Section):
    """How bodies are read."""

    parsers: list[PluginReference] = Field(
        [], max_length=MOST, description="Parsers; a type will do where no plugin has that name."
    )


class PriorityBandSpec(Section):
    """Limits of the requests of one priority."""

    priority: int | None = None
    max_bytes: Quantity | None = None
    max_requests: Quantity | None = None
    fairness_policy_ref: str | None = None
    ordering_policy_ref: str | None = None


class FlowControlSpec(Section):
    """Queueing; without effect but for the saturation detector."""

    max_bytes: Quantity | None = None
    max_requests: Quantity | None = None
    default_request_ttl: Annotated[Duration | None, Field(alias="defaultRequestTTL")] = None
    no_endpoint_request_ttl: Annotated[Duration | None, Field(alias="noEndpointRequestTTL")] = None
    default_priority_band: PriorityBandSpec | None = None
    default_negative_priority_band: PriorityBandSpec | None = None
    priority_bands: list[PriorityBandSpec] = Field([], max_length=MOST)
    usage_limit_policy_plugin_ref: str | None = None
    saturation_detector: SaturationDetectorReference | None = Field(
        None, description="Tells when requests of negative priority are turned away."
    )
    enable_eviction: bool = False


class EndpointPickerConfig(Section):
    """How the Endpoint Picker picks."""

    api_version: str = Field(
        API_VERSION,
        description="Group and version of this schema.",
        json_schema_extra={"enum": [API_VERSION, OLDER_API_VERSION]},
    )
    kind: str = Field(
        KIND, description="Kind of this document.", json_schema_extra={"enum": [KIND]}
    )
    feature_gates: list[str] = Field(
        [], max_length=MOST, description="`name`, `name=true` or `name=false`."
    )
    plugins: list[PluginSpec] = Field([], max_length=MOST, description="Instances of plugin types.")
    scheduling_profiles: list[SchedulingProfileSpec] = Field(
        [],
        max_length=MOST,
        description="Profiles; default: one with every filter, scorer and picker.",
    )
    data_layer: DataLayerSpec = Field(DataLayerSpec(), description="Data sources and discovery.")
    flow_control: FlowControlSpec | None = Field(None, description="Queueing.")
    request_handler: RequestHandlerSpec = Field(
        RequestHandlerSpec(), description="Parsers of request bodies."
    )
    saturation_detector: SaturationDetectorReference | None = Field(
        None, description="Deprecated: use flowControl.saturationDetector."
    )
    parser: PluginReference | None = Field(
        None, description="Deprecated: use requestHandler.parsers."
    )
