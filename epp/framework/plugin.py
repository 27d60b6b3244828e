"""What a plugin is: a class with a type, built from parameters, in a context of its own.

    class LeastWaitingParameters(Parameters):
        max_waiting: int = 128

    class LeastWaitingScorer(Scorer):
        def __init__(self, parameters: LeastWaitingParameters, context: PluginContext) -> None: ...

`__init__` takes none, one or both of the two, told apart by their annotations. A class without
`parameters` has none in its configuration.
"""

from __future__ import annotations

import inspect
import random
import sys
from abc import ABC
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, field_validator
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from epp.framework.data import DataType, Input, Output
    from epp.framework.metric_specs import CounterSpec, GaugeSpec, HistogramSpec, MetricSpec

P = TypeVar("P")
T = TypeVar("T")

_LARGEST = 2**63 - 1


class Stability(StrEnum):
    """How much a plugin type may still change. Alpha needs `--allow-experimental-plugins`."""

    ALPHA = "Alpha"
    BETA = "Beta"
    STABLE = "Stable"
    DEPRECATED = "Deprecated"


class Parameters(BaseModel):
    """Base of a plugin's parameters: camelCase in YAML, unknown names are mistakes.

    Field descriptions (`Field(description=...)`) are what `epp plugins show` prints.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_name=True,
        validate_by_alias=True,
        allow_inf_nan=False,
    )
    replaced: ClassVar[Mapping[str, str]] = {}
    """By the name of a deprecated parameter in YAML, the one to use: its users are warned."""
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """YAML names that are looked for here, and the plugin type that has them."""

    @field_validator("*")
    @classmethod
    def _is_no_endless_number(cls, value: T) -> T:
        """As in the reference: what is made of a larger one may not fit a float, or C."""
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise ValueError(f"whole numbers from {-_LARGEST} to {_LARGEST}")
        return value


class Plugin(ABC):  # noqa: B024 - its contracts have the abstract methods
    """A part of the request path or of the data layer, configured by its type."""

    type: str = ""
    """Its name in `type:`; set when it is built, so that a plugin of your own may leave it out."""
    stability: ClassVar[Stability] = Stability.BETA
    summary: ClassVar[str] = ""
    """One sentence for `epp plugins list`; else the first line of the class's docstring."""
    replaced_by: ClassVar[str] = ""
    """Of a deprecated type: what to use instead."""
    ignores_parameters: ClassVar[bool] = False
    """Whether any parameters are let through with a warning, as in the reference (decision 17)."""
    metrics: ClassVar[tuple[MetricSpec, ...]] = ()
    """Series of its own; those of bundled plugins are in `docs/plugin-reference.md`."""
    __given_name: str = ""

    @property
    def name(self) -> str:
        """Name of this instance in the configuration, in logs and metrics; else its type."""
        return self.__given_name or self.type or type(self).__name__

    def identify(self, *, type: str, name: str) -> None:
        """Tell the plugin what the configuration calls it."""
        self.type, self.__given_name = type, name

    def dump_state(self) -> object:
        """What `/debug/plugins/state` shows, as JSON-compatible data; None: nothing to show."""
        return None


class CounterChild(Protocol):
    """One series of a counter."""

    def inc(self, amount: float = 1) -> None:
        """Grow by `amount`."""


class GaugeChild(Protocol):
    """One series of a gauge; never below zero."""

    def set(self, value: float) -> None:
        """Replace the value."""

    def inc(self, amount: float = 1) -> None:
        """Grow by `amount`."""

    def dec(self, amount: float = 1) -> None:
        """Take back `amount`."""


class HistogramChild(Protocol):
    """One series of a histogram."""

    def observe(self, value: float) -> None:
        """Count `value`."""


Child = TypeVar("Child", covariant=True)


class MetricFamily(Protocol[Child]):
    """The series of one metric. Keep a child rather than looking it up per request."""

    def labels(self, values: tuple[str, ...]) -> Child:
        """The series with these label values, in the order of the spec; their number is bounded."""


class PluginMetrics(Protocol):
    """Makes a plugin's own series; the same spec gives the same family, reloads included."""

    def counter(self, spec: CounterSpec) -> MetricFamily[CounterChild]:
        """A family of counters."""

    def gauge(self, spec: GaugeSpec) -> MetricFamily[GaugeChild]:
        """A family of gauges."""

    def histogram(self, spec: HistogramSpec) -> MetricFamily[HistogramChild]:
        """A family of histograms."""

    def computed(
        self, spec: GaugeSpec, owner: str, read: Callable[[], Mapping[tuple[str, ...], float]]
    ) -> None:
        """Gauges whose values `read` gives when the page is written; one reader for each owner."""

    def model_label(self, model: str) -> str:
        """`model` as a label value: capped in number and length like every model label."""


class PluginContext(Protocol):
    """What the process offers a plugin while it is built."""

    name: str
    """Name of the instance."""
    plugin_type: str
    rng: random.Random
    """Random numbers of its own, repeatable under `--seed`."""
    now: Callable[[], float]
    """Monotonic seconds."""

    @property
    def metrics(self) -> PluginMetrics:
        """Where series of its own are made."""

    def consumes(
        self, data_type: DataType[T], *, producer: str | None = None, required: bool = True
    ) -> Input[T]:
        """Declare that the plugin reads `data_type`, from the instance `producer` if one is named.

        Without a name the one producer there is, else the default one, which is created when it
        is missing. Nothing else of the data layer is readable: a declaration is the access.
        """

    def produces(self, data_type: DataType[T]) -> Output[T]:
        """Declare that the plugin writes `data_type`."""

    def plugin(self, name: str, kind: type[P], *, field: str) -> P:
        """The instance `name` of the configuration, which parameter `field` refers to.

        Raises `ConfigError` when there is none or when it is not a `kind`.
        """


def parameters_of(plugin: type[Plugin]) -> type[Parameters] | None:
    """The schema of a plugin type's parameters; None: it has none."""
    for annotation in _annotations(plugin).values():
        if isinstance(annotation, type) and issubclass(annotation, Parameters):
            return annotation
    return None


def construct(
    plugin: type[Plugin], parameters: Parameters | None, context: PluginContext
) -> Plugin:
    """Build an instance with what its `__init__` asks for, and tell it its name."""
    arguments: dict[str, Any] = {}
    for name, annotation in _annotations(plugin).items():
        if isinstance(annotation, type) and issubclass(annotation, Parameters):
            arguments[name] = annotation() if parameters is None else parameters
        elif annotation is PluginContext:
            arguments[name] = context
    made = plugin(**arguments)
    made.identify(type=context.plugin_type, name=context.name)
    return made


def _annotations(plugin: type[Plugin]) -> dict[str, Any]:
    """Arguments of `__init__` and their types; annotations may be strings."""
    if plugin.__init__ is object.__init__:
        return {}
    module = sys.modules.get(plugin.__init__.__module__)
    names = {"PluginContext": PluginContext, "Parameters": Parameters}
    scope = {**names, **(vars(module) if module is not None else {})}
    resolved: dict[str, Any] = {}
    for name, argument in list(inspect.signature(plugin.__init__).parameters.items())[1:]:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        annotation = argument.annotation
        if isinstance(annotation, str):
            annotation = eval(annotation, scope)
        resolved[name] = annotation
    return resolved
