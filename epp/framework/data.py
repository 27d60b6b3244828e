"""What plugins tell one another: typed data with one writer and any number of readers.

A producer holds an `Output`, a consumer an `Input`; both are asked of the `PluginContext` while the
plugin is built. That makes the graph of who reads what from whom, and undeclared access impossible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest

T = TypeVar("T")


class Scope(StrEnum):
    """What a value belongs to."""

    REQUEST = "request"
    """One request."""
    CANDIDATE = "candidate"
    """One endpoint as seen by one request."""
    ENDPOINT = "endpoint"
    """One endpoint, for as long as it lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataType(Generic[T]):
    """A kind of value, told apart by its name."""

    name: str
    """As the reference spells it: `PrefixCacheMatchInfoDataKey`."""
    scope: Scope
    default_producer: str = ""
    """Plugin type whose instance of the same name is meant when no producer is named."""
    created_when_missing: bool = False
    """Whether the default producer is added to a configuration that lacks one."""
    is_transient: bool = False
    """Whether the value is let go of after the pick: it is large, or keeps the body alive."""
    value: object = None
    """The Python type, for documentation."""

    def key(self, producer: str) -> str:
        """`DataType/ProducerName`, the key under which one producer's values are kept."""
        return f"{self.name}/{producer}"


class Output(Generic[T]):
    """Write access of a producer to its own values."""

    __slots__ = ("data_type", "key")

    def __init__(self, data_type: DataType[T], producer: str) -> None:
        self.data_type = data_type
        self.key = data_type.key(producer)

    def put(self, request: InferenceRequest, value: T) -> None:
        """Set the value of a request (scope REQUEST)."""
        request.attributes[self.key] = value
        if self.data_type.is_transient:
            request.transient_attributes.append(self.key)

    def put_all(self, request: InferenceRequest, values: Mapping[Endpoint, T]) -> None:
        """Set the values of candidates of a request (scope CANDIDATE); who is not in it has none.

        A mapping that computes its values when asked is welcome.
        """
        request.candidate_attributes[self.key] = values

    def put_on(self, endpoint: Endpoint, value: T) -> None:
        """Set the value of an endpoint (scope ENDPOINT); it goes when the endpoint goes.

        What an extractor puts goes when its pages stop coming, too, and is back with the next one.
        """
        endpoint.state.attributes[self.key] = value

    def remove_from(self, endpoint: Endpoint) -> None:
        """Take the value of an endpoint away."""
        endpoint.state.attributes.pop(self.key, None)


class Input(Generic[T]):
    """Read access of a consumer; bound to a producer once the configuration is complete.

    Unbound (an optional input without a producer) it reads as absent everywhere.
    """

    __slots__ = ("data_type", "key", "producer", "required")

    def __init__(
        self, data_type: DataType[T], *, producer: str | None = None, required: bool = True
    ) -> None:
        self.data_type = data_type
        self.producer = producer
        """The instance the configuration names; None: whichever fits."""
        self.required = required
        self.key = ""
        """What it is bound to; empty: nothing."""

    def bind(self, producer: str) -> None:
        """Read what the instance `producer` writes."""
        self.key = self.data_type.key(producer)

    def of_request(self, request: InferenceRequest) -> T | None:
        """The value of a request (scope REQUEST)."""
        value: T | None = request.attributes.get(self.key)
        return value

    def of(self, request: InferenceRequest, endpoint: Endpoint) -> T | None:
        """The value of one endpoint (scopes CANDIDATE and ENDPOINT)."""
        values = request.candidate_attributes.get(self.key)
        attributes = endpoint.state.attributes
        value: T | None = attributes.get(self.key) if values is None else values.get(endpoint)
        return value

    def values(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[T | None]:
        """The values of endpoints, in their order."""
        key = self.key
        values: Mapping[Endpoint, Any] | None = request.candidate_attributes.get(key)
        if values is not None:
            # A producer tells of all candidates in their order, and mostly all are asked for: then
            # 300 need not be looked up, but only compared.
            if type(values) is dict and tuple(values) == tuple(endpoints):
                return list(values.values())
            return [values.get(endpoint) for endpoint in endpoints]
        return [endpoint.state.attributes.get(key) for endpoint in endpoints]

    def on(self, endpoint: Endpoint) -> T | None:
        """The lasting value of an endpoint (scope ENDPOINT), without a request."""
        value: T | None = endpoint.state.attributes.get(self.key)
        return value
