"""Entries of an `endpoints:` list, as the reference's file discovery writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from epp.datastore.manifest_errors import allowed, path_text, problems, without_nulls
from epp.datastore.pods import Pod
from epp.support.addresses import routable_ip


def _ip(value: object) -> str:
    ip = routable_ip(value) if isinstance(value, str) else None
    if ip is None:
        raise ValueError
    return ip


def _port(value: object) -> object:
    # Written as a string by the reference, as a number by people.
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    name: Annotated[
        str,
        Field(max_length=253, pattern=r"^[^\s/]+$"),
        allowed("1 to 253 characters without blanks and '/' (quote numbers)"),
    ]
    namespace: Annotated[
        str,
        Field(max_length=63, pattern=r"^[^\s/]+$"),
        allowed("1 to 63 characters without blanks and '/' (quote numbers)"),
    ] = "default"
    address: Annotated[
        str,
        BeforeValidator(_ip),
        allowed("an IPv4 or IPv6 address, without port (host names are not resolved)"),
    ]
    port: (
        Annotated[int, BeforeValidator(_port), Field(ge=1, le=65535), allowed("1 to 65535")] | None
    ) = None
    labels: dict[str, str] = {}


@dataclass(slots=True)
class Entries:
    """What a list of entries says: pods, those it says wrongly, and what is only odd."""

    pods: list[Pod]
    skipped: list[str]
    warnings: list[str]


def read_entries(entries: list[Any]) -> Entries:
    """Read each entry by itself. Of entries with the same namespace and name the last one wins."""
    result = Entries([], [], [])
    pods: dict[tuple[str, str], Pod] = {}
    for index, raw in enumerate(entries):
        entry = without_nulls(raw)
        try:
            pod = _pod(_Entry.model_validate(entry))
        except ValidationError as error:
            lines = "; ".join(problems(error))
            result.skipped.append(f"endpoints[{index}]{_name_of(entry)}: {lines}")
            continue
        result.warnings += _unknown_fields(index, entry)
        if pods.pop((pod.namespace, pod.name), None):
            result.warnings.append(
                f"endpoints[{index}]: {pod.namespace}/{pod.name} is given more than once;"
                " the last one counts"
            )
        pods[pod.namespace, pod.name] = pod
    result.pods = list(pods.values())
    return result


def _pod(entry: _Entry) -> Pod:
    return Pod(
        # The address is part of what an endpoint is: another one is another server, which
        # inherits nothing. Labels are not.
        uid=f"{entry.namespace}/{entry.name}@{entry.address}",
        name=entry.name,
        namespace=entry.namespace,
        ips=(entry.address,),
        labels=entry.labels,
        ready=True,
        fixed_port=entry.port,
    )


def _name_of(entry: object) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return f" ({name[:100]})" if isinstance(name, str) else ""


def _unknown_fields(index: int, entry: dict[str, Any]) -> list[str]:
    unknown = [name for name in entry if name not in _Entry.model_fields]
    return [f"endpoints[{index}].{path_text((name,))}: unknown field" for name in unknown]
