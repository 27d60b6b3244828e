"""The file that describes a pool where there is no Kubernetes (decision 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from epp.datastore import inference_objective
from epp.datastore.inference_objective import (
    InferenceObjective,
    parse_inference_objective,
    priorities_of,
)
from epp.datastore.inference_pool import (
    KIND,
    InferencePool,
    parse_inference_pool,
    unknown_pool_fields,
)
from epp.datastore.manifest_errors import indented, value_text
from epp.datastore.pods import Pod
from epp.discovery.endpoint_entries import read_entries
from epp.framework.errors import ConfigError
from epp.support.regular_files import read_regular_file
from epp.support.yaml_documents import YamlDocumentsError, load_documents

MAX_BYTES = 1 << 20
DEFAULT_POOL_NAME = "epp"
# InferencePool's own neighbours, such as InferencePoolImport, are further away than a slip.
_MISSPELT = 0.84


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFile:
    """What a usable file says."""

    pool: InferencePool
    pods: tuple[Pod, ...]
    """All of them belong to the pool, whatever their labels: who lists an endpoint selects it."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """Of requests, by name of the InferenceObjective."""
    skipped: tuple[str, ...] = ()
    """A line for each entry that is wrong; the others count."""
    warnings: tuple[str, ...] = ()
    ignored_kinds: tuple[str, ...] = ()
    """Kinds of manifests that mean nothing here."""


@dataclass(slots=True)
class _Documents:
    pools: list[Any] = field(default_factory=list)
    objectives: list[InferenceObjective] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    entry_lists: list[Any] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_content(path: Path) -> bytes:
    """The bytes of the file; raises `ConfigError` when there are none to be had."""
    try:
        content = read_regular_file(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"pool file {path} can't be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"pool file {path} is larger than {MAX_BYTES} bytes")
    return content


def parse_pool_file(
    content: bytes,
    *,
    default_namespace: str = "default",
    default_pool_name: str = DEFAULT_POOL_NAME,
) -> PoolFile:
    """Read a file; raises `ConfigError` when it is wrong as a whole.

    The defaults are for a file that lists endpoints only.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8: byte {error.start}") from error
    try:
        documents = _sorted_out(load_documents(text))
    except YamlDocumentsError as error:
        raise ConfigError(str(error)) from error
    if not documents.pools and not documents.entry_lists:
        raise ConfigError(f"holds neither an {KIND} manifest nor an `endpoints:` list")
    entries = read_entries([entry for entries in documents.entry_lists for entry in entries])
    if documents.pools:
        pool = parse_inference_pool(documents.pools[0], default_namespace=default_namespace)
        documents.warnings += unknown_pool_fields(documents.pools[0])
    else:
        _require_ports(entries.pods)
        pool = InferencePool(name=default_pool_name, namespace=default_namespace)
        if documents.kinds:
            documents.warnings.append(f"no {KIND} manifest among the manifests")
    documents.warnings += _shared_addresses(entries.pods)
    documents.skipped += _other_pools(documents.objectives, pool)
    return PoolFile(
        pool=pool,
        pods=tuple(entries.pods),
        priorities=priorities_of(documents.objectives, pool),
        skipped=(*entries.skipped, *documents.skipped),
        warnings=(*documents.warnings, *entries.warnings),
        ignored_kinds=tuple(dict.fromkeys(documents.kinds)),
    )


def _sorted_out(documents: Sequence[Any]) -> _Documents:
    result = _Documents()
    for number, document in enumerate(documents, start=1):
        if not isinstance(document, dict):
            raise ConfigError(f"document {number}: {value_text(document)} is not a mapping")
        kind = document.get("kind")
        if kind == KIND:
            result.pools.append(document)
        elif kind == inference_objective.KIND:
            _add_objective(result, document, number)
        elif kind is not None:
            _refuse_misspelt(str(kind), number)
            result.kinds.append(str(kind))
        elif isinstance(document.get("endpoints"), list):
            result.entry_lists.append(document["endpoints"])
            result.warnings += [
                f"document {number}: unknown field {name}"
                for name in document.keys() - {"endpoints"}
            ]
        elif "endpoints" in document:
            value = value_text(document["endpoints"])
            raise ConfigError(f"document {number}: endpoints: {value} is not allowed; a list")
        else:
            raise ConfigError(f"document {number}: has neither `kind` nor `endpoints`")
    if len(result.pools) > 1:
        raise ConfigError(f"holds {len(result.pools)} {KIND} manifests; one is allowed")
    return result


def _add_objective(result: _Documents, document: object, number: int) -> None:
    try:
        result.objectives.append(parse_inference_objective(document))
    except ConfigError as error:
        result.skipped.append(f"document {number}: {error}")


def _other_pools(objectives: Sequence[InferenceObjective], pool: InferencePool) -> list[str]:
    return [
        f"{inference_objective.KIND} {objective.name}: spec.poolRef: it is about the pool"
        f" {objective.pool_name!r} of group {objective.pool_group!r}, not about {pool.name!r}"
        for objective in objectives
        if not objective.is_about(pool.name)
    ]


def _shared_addresses(pods: Sequence[Pod]) -> list[str]:
    """Two names for one server get twice the traffic; perhaps that is meant."""
    names: dict[tuple[object, ...], list[str]] = {}
    for pod in pods:
        names.setdefault((pod.ips, pod.fixed_port), []).append(f"{pod.namespace}/{pod.name}")
    return [f"endpoints with one address: {', '.join(n)}" for n in names.values() if len(n) > 1]


def _refuse_misspelt(kind: str, number: int) -> None:
    """A pool that is taken for something else would vanish without a word."""
    if get_close_matches(kind, [KIND], cutoff=_MISSPELT):
        raise ConfigError(f"document {number}: kind: {kind} is not known; did you mean {KIND}?")


def _require_ports(pods: Sequence[Pod]) -> None:
    portless = [f"{pod.namespace}/{pod.name}" for pod in pods if pod.fixed_port is None]
    if portless:
        raise ConfigError(
            f"endpoints without `port` need an {KIND} manifest with spec.targetPorts in the same"
            f" file:\n{indented(portless)}"
        )
