"""Plugins of a stranger, for tests of how plugins are found, built and wired."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pydantic import Field

from epp.framework import (
    DataProducer,
    DataSource,
    DataType,
    Endpoint,
    EndpointSource,
    GaugeSpec,
    InferenceRequest,
    Input,
    KubernetesSource,
    Parameters,
    Plugin,
    PluginContext,
    Scope,
    Scorer,
    Screener,
)
from epp.framework.data_types import PREFIX_MATCH, endpoint_attribute

COLOUR: DataType[str] = DataType(
    name="Colour", scope=Scope.REQUEST, default_producer="colour-producer", value=str
)
SHADE: DataType[str] = DataType(name="Shade", scope=Scope.REQUEST, value=str)
OTHER_COLOUR: DataType[int] = DataType(name="Colour", scope=Scope.REQUEST, value=int)
COUNT = GaugeSpec(name="acme_count", help="Counts.", labels=())


class ReaderParameters(Parameters):
    """Whom to read from."""

    colour_producer_name: str = Field("", description="Who writes the colour.")
    strength: int = Field(1, description="How much it counts.")


class ColourScorer(Scorer):
    """Prefers colours."""

    def __init__(self, parameters: ReaderParameters, context: PluginContext) -> None:
        self.colour: Input[str] = context.consumes(
            COLOUR, producer=parameters.colour_producer_name or None
        )

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """The same for all."""
        return [1.0] * len(endpoints)


class OptionalColourScorer(ColourScorer):
    """Prefers colours, if there are any."""

    def __init__(self, context: PluginContext) -> None:
        self.colour = context.consumes(COLOUR, required=False)


class CountingColourScorer(ColourScorer):
    """Prefers colours, and shows how many it has seen."""

    metrics = (COUNT,)

    def __init__(self, parameters: ReaderParameters, context: PluginContext) -> None:
        super().__init__(parameters, context)
        self.count = 0.0
        context.metrics.computed(COUNT, context.name, lambda: {(): self.count})


class AttributeScorer(Scorer):
    """Reads an attribute of endpoints."""

    def __init__(self, context: PluginContext) -> None:
        self.attribute = context.consumes(endpoint_attribute("speed"))

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """The same for all."""
        return [1.0] * len(endpoints)


class Producer(DataProducer):
    """Does nothing."""

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Nothing."""


class ColourProducer(Producer):
    """Writes the colour."""

    def __init__(self, context: PluginContext) -> None:
        self.colour = context.produces(COLOUR)


class WrongColourProducer(Producer):
    """Writes something else under the same name."""

    def __init__(self, context: PluginContext) -> None:
        self.colour = context.produces(OTHER_COLOUR)


class ShadeProducer(Producer):
    """Writes the shade of a colour."""

    def __init__(self, context: PluginContext) -> None:
        self.colour = context.consumes(COLOUR)
        self.shade = context.produces(SHADE)


class ShadyColourProducer(Producer):
    """Writes the colour of a shade."""

    def __init__(self, context: PluginContext) -> None:
        self.shade = context.consumes(SHADE)
        self.colour = context.produces(COLOUR)


class PrefixProducer(Producer):
    """Another producer of prefix matches."""

    def __init__(self, context: PluginContext) -> None:
        self.match = context.produces(PREFIX_MATCH)


class ColouringScorer(Scorer):
    """Writes the colour, too late for producers."""

    def __init__(self, context: PluginContext) -> None:
        self.colour = context.produces(COLOUR)

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """The same for all."""
        return [1.0] * len(endpoints)


class ColourScreener(Screener):
    """Reads the colour, before producers run."""

    def __init__(self, context: PluginContext) -> None:
        self.colour = context.consumes(COLOUR)

    def screen(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """All of them."""
        return list(endpoints)


class FriendParameters(Parameters):
    """Another plugin."""

    friend: str = Field("", description="Name of a plugin.")


class Friend(Plugin):
    """Refers to another one."""

    def __init__(self, parameters: FriendParameters, context: PluginContext) -> None:
        self.friend = (
            context.plugin(parameters.friend, Friend, field="friend") if parameters.friend else None
        )


class SourceOfNoKind(DataSource):
    """Has data, nobody knows which."""


class SourceOfTwoKinds(KubernetesSource, EndpointSource):
    """Follows pods and endpoints."""

    version = "v1"
    kind = "Pod"


class FailingPlugin(Plugin):
    """Can't be built."""

    def __init__(self) -> None:
        raise RuntimeError("no such luck")


class ExitingPlugin(Plugin):
    """Has read too many scripts."""

    def __init__(self) -> None:
        sys.exit(3)


class NotFinished(Scorer):
    """Has no `score`."""


class MisAnnotated(Plugin):
    """Has an annotation that nobody can read."""

    def __init__(self, parameters: Nowhere) -> None:  # type: ignore[name-defined] # noqa: F821
        """Never called."""


NOT_A_PLUGIN = 7
