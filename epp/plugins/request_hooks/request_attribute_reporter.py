"""A number computed from token usage, told to the gateway (protocol §7.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from epp.framework.plugin import Parameters, Stability
from epp.framework.request_control import ResponseMetadata
from epp.plugins.request_hooks.usage_expressions import compiled

if TYPE_CHECKING:
    from epp.framework.request import InferenceRequest, InferenceResponse, MetadataValue
    from epp.framework.usage import Usage

DEFAULT_NAMESPACE = "envoy.lb"


class AttributeKey(Parameters):
    """Where the number goes."""

    namespace: str = Field(DEFAULT_NAMESPACE, description="Namespace of the dynamic metadata.")
    name: str = Field(min_length=1, description="Key within the namespace.")


class ReportedAttribute(Parameters):
    """What is reported, and when."""

    key: AttributeKey = Field(description="Where the number goes.")
    expression: str = Field(
        min_length=1, description="CEL over usage, such as usage.completion_tokens; a number."
    )
    condition: str = Field(
        "", description="CEL over usage that must be true for anything to be reported."
    )


class RequestAttributeReporterParameters(Parameters):
    """The one attribute that is reported."""

    attributes: list[ReportedAttribute] = Field(
        min_length=1, max_length=1, description="What is reported; exactly one entry."
    )


class RequestAttributeReporter(ResponseMetadata):
    """Tells the gateway what a request cost, by an expression over its token usage."""

    type = "request-attribute-reporter"
    stability = Stability.BETA

    def __init__(self, parameters: RequestAttributeReporterParameters) -> None:
        attribute = parameters.attributes[0]
        self._namespace = attribute.key.namespace or DEFAULT_NAMESPACE
        self._key = attribute.key.name
        self._expression = compiled(
            attribute.expression, field="attributes[0].expression", returns=(int, float)
        )
        self._condition = (
            compiled(attribute.condition, field="attributes[0].condition", returns=(bool,))
            if attribute.condition
            else None
        )

    def response_metadata(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> Mapping[str, Mapping[str, MetadataValue]]:
        """The number without its fraction; nothing if it is 0 or needs what was not reported."""
        if response.usage is None:
            return {}
        try:
            value = self._value(_counts(response.usage))
        except KeyError:
            return {}
        return {self._namespace: {self._key: float(value)}} if value else {}

    def _value(self, counts: Mapping[str, int]) -> int:
        if self._condition is not None and self._condition(counts) is not True:
            return 0
        value = self._expression(counts)
        if not isinstance(value, int | float):
            raise TypeError(f"the expression gave a {type(value).__name__}, not a number")
        return int(value)


def _counts(usage: Usage) -> dict[str, int]:
    reported = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
    }
    return {name: count for name, count in reported.items() if count is not None}
