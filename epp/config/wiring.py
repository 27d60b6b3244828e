"""Who reads what from whom (scheduling §2.7, §2.8)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from epp.config.document import Origin
from epp.config.findings import listed, unknown_name
from epp.config.graph import topological_order
from epp.config.instances import Instance, Instances
from epp.config.producer_parameters import producer_parameters
from epp.config.stages import is_written_after
from epp.config.unavailable import UNAVAILABLE, how_to_have
from epp.framework.data import DataType, Input, Scope
from epp.framework.data_types import CORE_METRICS, CORE_METRICS_EXTRACTOR
from epp.framework.request_control import DataProducer

_CORE_NAMES = frozenset(data_type.name for data_type in CORE_METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One input and the instance it reads from."""

    reader: Instance
    input: Input[Any]
    producer: Instance | None
    """None: nobody writes what is read here, and it is optional."""

    @property
    def key(self) -> str:
        """What the input is bound to."""
        return self.input.data_type.key(self.producer.name) if self.producer else ""


def create_missing_producers(instances: Instances) -> None:
    """Add the default producers of what is read and written by nobody, and theirs.

    One that is named in a parameter is added too: the name is what the reference looks it up by.
    Data without a default producer are missed even if a producer that is added for other data
    would write them too: the reference asks for it to be listed (L13).
    """
    for reader, wanted in instances.inputs:
        if _is_missing(wanted, instances) and not wanted.data_type.created_when_missing:
            _tell_missing(reader, wanted, instances)
    pending = deque(instances.all)
    while pending:
        for wanted in pending.popleft().inputs:
            default = wanted.data_type.default_producer
            if not wanted.data_type.created_when_missing or instances.knows(default):
                continue
            if wanted.producer == default or _is_missing(wanted, instances):
                made = instances.add(default, Origin.PRODUCER)
                pending += [made] if made is not None else []


def wire(instances: Instances) -> list[Link]:
    """A link for every input; what can't be wired is a finding."""
    links = [
        Link(reader=instance, input=wanted, producer=_producer(instance, wanted, instances))
        for instance, wanted in instances.inputs
    ]
    for link in links:
        _check(link, instances)
    _warn_of_unread(links, instances)
    return links


def execution_order(links: Sequence[Link], instances: Instances) -> list[str]:
    """Names of all instances, each after those it reads from; a circle is a finding."""
    names = [instance.name for instance in instances.all]
    order, circle = topological_order(names, _before(links))
    if circle:
        # What is optional may come late, but it can't be waited for in a circle.
        order, circle = topological_order(
            names, _before(link for link in links if link.input.required)
        )
    if circle:
        instances.findings.problem(
            "plugins", f"data can't be read in a circle: {' reads from '.join(circle)}"
        )
    return order


def writers(data_type: DataType[Any], instances: Sequence[Instance]) -> list[Instance]:
    """Those of `instances` that write `data_type`."""
    declared = [instance for instance in instances if _declares(instance, data_type)]
    if declared or data_type.default_producer != CORE_METRICS_EXTRACTOR:
        return declared
    return [i for i in instances if i.entry.type == CORE_METRICS_EXTRACTOR]


def default_of(data_type: DataType[Any], found: Sequence[Instance]) -> Instance | None:
    """The one that is meant when no producer is named; None: it must be said."""
    for instance in found:
        if instance.name == data_type.default_producer:
            return instance
    # Core metrics are kept once for each endpoint, whoever writes them.
    is_one = len(found) == 1 or data_type.name in _CORE_NAMES
    return found[0] if found and is_one else None


def _producer(reader: Instance, wanted: Input[Any], instances: Instances) -> Instance | None:
    data_type, findings = wanted.data_type, instances.findings
    found = writers(data_type, instances.all)
    if wanted.producer is not None:
        return _named_producer(reader, wanted, found, instances)
    chosen = default_of(data_type, found)
    if chosen is not None:
        if not _declares(chosen, data_type) and data_type.name not in _CORE_NAMES:
            findings.warning(
                reader.where,
                f"{chosen.name!r} is not configured to write {data_type.name!r}, which"
                f" {reader.name!r} reads",
            )
        return chosen
    if found:
        findings.problem(
            _path(reader, None),
            f"{data_type.name} is written by {listed(i.name for i in found)};"
            f" say which one {reader.name!r} reads{_hint(reader, data_type)}",
        )
    else:
        _tell_missing(reader, wanted, instances)
    return None


def _is_missing(wanted: Input[Any], instances: Instances) -> bool:
    is_open = wanted.required and wanted.producer is None
    return is_open and not writers(wanted.data_type, instances.all)


def _tell_missing(reader: Instance, wanted: Input[Any], instances: Instances) -> None:
    if not instances.is_complete:
        return  # one that can't be built may be the one that writes it
    data_type = wanted.data_type
    hint = how_to_have(data_type.default_producer)
    text = f"no plugin writes {data_type.name}, which {reader.name!r} reads{hint}"
    if wanted.required:
        instances.findings.problem(reader.where, text)
    elif data_type.default_producer in UNAVAILABLE:
        instances.findings.warning(reader.where, text)


def _named_producer(
    reader: Instance, wanted: Input[Any], found: Sequence[Instance], instances: Instances
) -> Instance | None:
    name, path = str(wanted.producer), _path(reader, wanted.producer)
    if not instances.knows(name):
        others = [instance.name for instance in found] or instances.names
        instances.findings.problem(path, unknown_name(name, "plugin of this document", others))
        return None
    named = instances.get(name)
    if named is None or named in found:
        return named
    who = f"; who does: {listed(i.name for i in found)}" if found else ""
    instances.findings.problem(
        path, f"plugin {name!r} (type {named.entry.type}) writes no {wanted.data_type.name}{who}"
    )
    return None


def _check(link: Link, instances: Instances) -> None:
    """What is written is what is read, and it is written before (scheduling §2.8)."""
    producer, data_type = link.producer, link.input.data_type
    if producer is None:
        return
    for output in producer.outputs:
        written = output.data_type
        if written.name == data_type.name and (
            written.scope is not data_type.scope
            or (written.value and data_type.value and written.value is not data_type.value)
        ):
            instances.findings.problem(
                link.reader.where,
                f"{link.reader.name!r} reads another {data_type.name} than"
                f" {producer.name!r} writes",
            )
    is_lasting = data_type.scope is Scope.ENDPOINT
    if not is_lasting and is_written_after(producer.plugin, link.reader.plugin):
        instances.findings.problem(
            link.reader.where,
            f"{link.reader.name!r} reads {data_type.name} before {producer.name!r} writes it",
        )


def _warn_of_unread(links: Sequence[Link], instances: Instances) -> None:
    """A producer that is passed over for another one of the same data is hardly meant."""
    read = {link.producer.name for link in links if link.producer is not None}
    for instance in instances.all:
        if instance.name in read or not isinstance(instance.plugin, DataProducer):
            continue
        for output in instance.outputs:
            others = [
                link.producer.name
                for link in links
                if link.producer is not None and link.input.data_type.name == output.data_type.name
            ]
            if others:
                instances.findings.warning(
                    instance.where,
                    f"nobody reads {output.data_type.name} of {instance.name!r}:"
                    f" it is read from {others[0]!r}",
                )


def _before(links: Iterable[Link]) -> dict[str, set[str]]:
    before: dict[str, set[str]] = {}
    for link in links:
        if link.producer is not None and link.producer is not link.reader:
            before.setdefault(link.reader.name, set()).add(link.producer.name)
    return before


def _declares(instance: Instance, data_type: DataType[Any]) -> bool:
    return any(output.data_type.name == data_type.name for output in instance.outputs)


def _path(reader: Instance, producer: str | None) -> str:
    names = [
        name
        for name, value in producer_parameters(reader.parameters).items()
        if producer is None or value == producer
    ]
    return f"{reader.where}.parameters.{names[0]}" if len(names) == 1 else reader.where


def _hint(reader: Instance, data_type: DataType[Any]) -> str:
    if names := list(producer_parameters(reader.parameters)):
        return f" with {' or '.join(names)}"
    default = data_type.default_producer
    return f" by calling it {default!r}" if default else " by leaving the others out"
