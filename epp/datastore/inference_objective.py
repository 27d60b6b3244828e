"""InferenceObjective: the priority of the requests that name it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from epp.datastore.inference_pool import GROUP as POOL_GROUP
from epp.datastore.inference_pool import InferencePool
from epp.datastore.manifest_errors import (
    allowed,
    indented,
    problems,
    unknown_fields,
    without_nulls,
)
from epp.framework.errors import ConfigError

KIND = "InferenceObjective"
GROUPS = ("llm-d.ai", "inference.networking.x-k8s.io")
"""API groups it is served in, the preferred one first."""
VERSION = "v1alpha2"
_API_VERSIONS = tuple(f"{group}/{VERSION}" for group in GROUPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceObjective:
    """One objective and the pool it is about."""

    name: str
    pool_name: str
    pool_group: str = POOL_GROUP
    priority: int = 0

    def is_about(self, pool_name: str) -> bool:
        """Whether it counts for the InferencePool of that name, in its own namespace."""
        return self.pool_name == pool_name and self.pool_group == POOL_GROUP


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, alias_generator=to_camel, extra="forbid")


class _Metadata(_Part):
    model_config = ConfigDict(extra="ignore")
    name: Annotated[str, Field(min_length=1, max_length=253), allowed("1 to 253 characters")]


class _PoolRef(_Part):
    group: str = POOL_GROUP
    kind: str = "InferencePool"
    name: Annotated[str, Field(min_length=1, max_length=253), allowed("1 to 253 characters")]


class _Spec(_Part):
    pool_ref: _PoolRef
    priority: Annotated[
        int, Field(ge=-(2**31), le=2**31 - 1), allowed("a whole number of 32 bits")
    ] = 0


class _Manifest(_Part):
    api_version: Annotated[
        Literal["llm-d.ai/v1alpha2", "inference.networking.x-k8s.io/v1alpha2"],
        allowed(" or ".join(_API_VERSIONS)),
    ]
    kind: Literal["InferenceObjective"]
    metadata: _Metadata
    spec: _Spec
    status: Any = None


def parse_inference_objective(document: object) -> InferenceObjective:
    """Read a manifest; raises `ConfigError` with every mistake in it."""
    try:
        manifest = _Manifest.model_validate(without_nulls(document))
    except ValidationError as error:
        lines = problems(error) + [f"{path}: unknown field" for path in unknown_fields(error)]
        raise ConfigError(f"{KIND} is not valid:\n{indented(lines)}") from error
    reference = manifest.spec.pool_ref
    return InferenceObjective(
        name=manifest.metadata.name,
        pool_name=reference.name,
        pool_group=reference.group,
        priority=manifest.spec.priority,
    )


def priorities_of(objectives: Iterable[InferenceObjective], pool: InferencePool) -> dict[str, int]:
    """Priorities by name of the objectives that are about `pool`; of one name the first counts."""
    priorities: dict[str, int] = {}
    for objective in objectives:
        if objective.is_about(pool.name):
            priorities.setdefault(objective.name, objective.priority)
    return priorities
