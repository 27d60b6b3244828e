"""The pool this process picks for, and the InferencePool v1 manifest it is read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from epp.datastore import old_inference_pool
from epp.datastore.manifest_errors import (
    allowed,
    indented,
    not_allowed,
    problems,
    unknown_fields,
    without_nulls,
)
from epp.framework.errors import ConfigError
from epp.support.nearest import did_you_mean

GROUP = "inference.networking.k8s.io"
OLD_GROUP = old_inference_pool.GROUP
API_VERSION = f"{GROUP}/v1"
KIND = "InferencePool"


class FailureMode(StrEnum):
    """What a gateway does with a request when no endpoint was picked for it."""

    FAIL_OPEN = "FailOpen"
    FAIL_CLOSE = "FailClose"


class AppProtocol(StrEnum):
    """How a gateway talks to the endpoints."""

    HTTP = "http"
    H2C = "kubernetes.io/h2c"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferencePool:
    """Which pods belong together, and which of their ports serve."""

    name: str
    namespace: str
    match_labels: Mapping[str, str] = field(default_factory=dict)
    target_ports: tuple[int, ...] = ()
    app_protocol: AppProtocol = AppProtocol.HTTP
    failure_mode: FailureMode | None = None
    """None: there is no manifest that says (decision 4)."""


def failure_mode_in_force(flag: FailureMode | None, pool: InferencePool | None) -> FailureMode:
    """What a fault of ours means: as the flag says, else the pool, else FailClose (decision 4)."""
    return flag or (pool.failure_mode if pool else None) or FailureMode.FAIL_CLOSE


_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"

_Port = Annotated[int, Field(ge=1, le=65535), allowed("1 to 65535")]
_ObjectName = Annotated[
    str,
    Field(max_length=253, pattern=f"^{_SUBDOMAIN}$"),
    allowed("1 to 253 lower-case letters, digits, '-' and '.'"),
]
_Namespace = Annotated[
    str,
    Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
    allowed("1 to 63 lower-case letters, digits and '-'"),
]
_LabelValue = Annotated[
    str,
    Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"),
    allowed("a string (quoted if need be) of at most 63 letters, digits, '-', '_' and '.'"),
]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, alias_generator=to_camel, extra="ignore")


class _Metadata(_Part):
    name: _ObjectName
    namespace: _Namespace | None = None


class _Selector(_Part):
    match_labels: Annotated[dict[str, _LabelValue], Field(min_length=1, max_length=64)]


class _PortReference(_Part):
    number: _Port


class _EndpointPickerRef(_Part):
    group: Annotated[
        str,
        Field(max_length=253, pattern=f"^({_SUBDOMAIN})?$"),
        allowed('"" or a DNS name of at most 253 characters'),
    ] = ""
    kind: Annotated[
        str,
        Field(max_length=63, pattern=r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"),
        allowed("1 to 63 letters, digits and '-', a letter first"),
    ] = "Service"
    name: Annotated[str, Field(min_length=1, max_length=253), allowed("1 to 253 characters")]
    port: _PortReference | None = None
    failure_mode: Annotated[Literal["FailOpen", "FailClose"], allowed("FailOpen or FailClose")] = (
        "FailClose"
    )


class _Spec(_Part):
    selector: _Selector
    target_ports: Annotated[list[_PortReference], Field(min_length=1, max_length=8)]
    app_protocol: Annotated[
        Literal["http", "kubernetes.io/h2c"], allowed("http or kubernetes.io/h2c")
    ] = "http"
    endpoint_picker_ref: _EndpointPickerRef | None = None


class _Manifest(_Part):
    api_version: Annotated[Literal["inference.networking.k8s.io/v1"], allowed(API_VERSION)]
    kind: Annotated[Literal["InferencePool"], allowed(KIND)]
    metadata: _Metadata
    spec: _Spec
    status: Any = None


def parse_inference_pool(document: object, *, default_namespace: str) -> InferencePool:
    """Read a manifest; raises `ConfigError` with every mistake in it.

    Unknown fields are pruned, as the API server does; `unknown_pool_fields` tells of them.
    """
    old_inference_pool.refuse(document)
    document = without_nulls(document)
    lines, unknown = _check(document)
    if lines:
        lines += [_unknown_field(path) for path in unknown]
        raise ConfigError(f"{KIND} is not valid:\n{indented(lines)}")
    manifest = _Manifest.model_validate(document)
    reference = manifest.spec.endpoint_picker_ref
    return InferencePool(
        name=manifest.metadata.name,
        namespace=manifest.metadata.namespace or default_namespace,
        match_labels=manifest.spec.selector.match_labels,
        target_ports=tuple(port.number for port in manifest.spec.target_ports),
        app_protocol=AppProtocol(manifest.spec.app_protocol),
        failure_mode=FailureMode(reference.failure_mode if reference else "FailClose"),
    )


def unknown_pool_fields(document: object) -> list[str]:
    """A line for each field of a manifest that nobody knows: most often a typing mistake."""
    return [_unknown_field(path) for path in _check(without_nulls(document))[1]]


def _check(document: object) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    unknown: list[str] = []
    try:
        _Manifest.model_validate(document, extra="forbid")
    except ValidationError as error:
        lines = problems(error)
        unknown = [path for path in unknown_fields(error) if not path.startswith("metadata.")]
    return lines + list(_cross_field_problems(document)), unknown


def _cross_field_problems(document: object) -> Iterator[str]:
    """Rules between fields, on the raw document: they are reported beside all other mistakes."""
    spec = document.get("spec") if isinstance(document, Mapping) else None
    if not isinstance(spec, Mapping):
        return
    ports = spec.get("targetPorts")
    seen: set[int] = set()
    for index, port in enumerate(ports if isinstance(ports, list) else ()):
        number = port.get("number") if isinstance(port, Mapping) else None
        if not isinstance(number, int):
            continue
        if number in seen:
            path = f"spec.targetPorts[{index}].number"
            yield not_allowed(path, number, "every port number once")
        seen.add(number)
    reference = spec.get("endpointPickerRef")
    if not isinstance(reference, Mapping) or "port" in reference:
        return
    if reference.get("kind", "Service") == "Service":
        yield "spec.endpointPickerRef.port: required when kind is Service (the default)"


_KNOWN_FIELDS = [
    info.alias or name
    for model in (_Manifest, _Spec, _Selector, _PortReference, _EndpointPickerRef)
    for name, info in model.model_fields.items()
]


def _unknown_field(path: str) -> str:
    name = path.rpartition(".")[2]
    # A known name in the wrong place is no typing mistake.
    hint = "" if name in _KNOWN_FIELDS else did_you_mean(name, _KNOWN_FIELDS)
    return f"{path}: unknown field, ignored{hint}"
