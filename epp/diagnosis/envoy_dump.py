"""Envoy's configuration, from its `/config_dump`, a file of that, or a bootstrap."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from epp.diagnosis.doctor_options import HostPort
from epp.diagnosis.page_reading import read_at_most
from epp.framework.errors import ConfigError
from epp.support.http_problems import http_problem
from epp.support.regular_files import read_regular_file
from epp.support.yaml_documents import YamlDocumentsError, load_first_document

MAX_BYTES = 64 * 2**20
# Read a hundred times as slowly as JSON; bootstraps of people are small.
_MAX_YAML_BYTES = 2**19
_TIMEOUT = aiohttp.ClientTimeout(total=5)
_CAMEL = re.compile(r"[a-z0-9]+(?:[A-Z][a-z0-9]*)+")
_HUMP = re.compile(r"[A-Z]")
_OK = 200
_DEEPEST = 200
_TELLING = frozenset(("@type", "match", "name"))

Part = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyDump:
    """The parts of a configuration that are about picking; field names are those of the API."""

    filters: tuple[Part, ...]
    """Of ext_proc."""
    overrides: tuple[Part, ...]
    """What routes say instead of the filter."""
    clusters: Mapping[str, Part]
    routes: tuple[Part, ...]
    managers: tuple[Part, ...]
    """HTTP connection managers."""


async def fetch_dump(address: HostPort) -> EnvoyDump:
    """What the Envoy with this admin port runs; raises `ConfigError`."""
    url = f"http://{address}/config_dump"
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.get(url, params={"include_eds": ""}) as response,
        ):
            if response.status != _OK:
                raise ConfigError(f"{url}: HTTP status {response.status}")
            content = await read_at_most(response, MAX_BYTES)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ConfigError(f"{url}: {http_problem(error)}") from error
    return await asyncio.to_thread(parse_dump, content, url)


def read_dump(path: Path) -> EnvoyDump:
    """What a file says; raises `ConfigError`."""
    try:
        content = read_regular_file(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    return parse_dump(content, str(path))


def parse_dump(content: bytes, what: str) -> EnvoyDump:
    """JSON as Envoy and its tools write it, or YAML; raises `ConfigError`."""
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{what} is longer than {MAX_BYTES} bytes")
    try:
        reader = _Reader()
        reader.read(_document(content))
    except (YamlDocumentsError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{what} is no configuration of Envoy: {error}") from error
    parts = reader.parts
    clusters = [part for part in parts if _is_cluster(part)]
    if not clusters:
        raise ConfigError(f"{what} is no configuration of Envoy: it has no cluster")
    return EnvoyDump(
        filters=_of_type(parts, "ext_proc.v3.ExternalProcessor"),
        overrides=tuple(
            part["overrides"]
            for part in _of_type(parts, "ext_proc.v3.ExtProcPerRoute")
            if isinstance(part.get("overrides"), Mapping)
        ),
        clusters={part["name"]: part for part in clusters},
        routes=tuple(part for part in parts if _is_route(part)),
        managers=_of_type(parts, "http_connection_manager.v3.HttpConnectionManager"),
    )


def type_of(part: object) -> str:
    """The type of an extension's configuration; empty: none is told."""
    return str(part.get("@type", "")) if isinstance(part, Mapping) else ""


def inner(part: object, *path: str) -> Any:
    """What stands at a path of fields; None: nothing."""
    for name in path:
        if not isinstance(part, Mapping):
            return None
        part = part.get(name)
    return part


def items(part: object, *path: str) -> list[Any]:
    """The list at a path of fields, empty where there is none."""
    found = inner(part, *path)
    return found if isinstance(found, list) else []


def seconds(value: object, default: float) -> float:
    """A duration as JSON has it, `0.200s`."""
    text = value[:-1] if isinstance(value, str) and value.endswith("s") else ""
    try:
        return float(text)
    except ValueError:
        return default


def _document(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        if len(content) > _MAX_YAML_BYTES:
            raise
        return load_first_document(content.decode("utf-8-sig"))[0]


class _Reader:
    """Spells field names as the API does, where tools write camelCase, and keeps telling parts."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self._names: dict[str, str] = {}

    def read(self, value: Any, depth: int = 0) -> Any:
        """The same value in the spelling of the API."""
        if depth > _DEEPEST:
            raise RecursionError("nested too deep")
        if isinstance(value, list):
            return [self.read(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        part = {}
        for key, item in value.items():
            name = self._spelled(key)
            # Filters of upgrades are not those that other requests meet.
            reader = _Reader() if name == "upgrade_configs" else self
            part[name] = reader.read(item, depth + 1)
        if not _TELLING.isdisjoint(part):
            self.parts.append(part)
        return part

    def _spelled(self, key: object) -> str:
        name = str(key)
        spelled = self._names.get(name)
        if spelled is None:
            spelled = self._names[name] = _snake_case(name)
        return spelled


def _snake_case(name: str) -> str:
    if not _CAMEL.fullmatch(name):
        return name
    return _HUMP.sub(lambda hump: f"_{hump[0].lower()}", name)


def _of_type(parts: list[dict[str, Any]], name: str) -> tuple[Part, ...]:
    return tuple(part for part in parts if type_of(part).endswith(name))


def _is_cluster(part: Part) -> bool:
    if not isinstance(part.get("name"), str):
        return False
    if type_of(part):
        return type_of(part).endswith("config.cluster.v3.Cluster")
    return any(name in part for name in ("type", "cluster_type", "load_assignment"))


def _is_route(part: Part) -> bool:
    return isinstance(part.get("match"), Mapping) and isinstance(part.get("route"), Mapping)
