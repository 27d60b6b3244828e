"""Whether a request is worth a stage of its own: what disaggregated serving asks per request."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from pydantic import Field

from epp.framework.data_types import PREFIX_MATCH, TOKENIZED_PROMPT
from epp.framework.plugin import Parameters, Plugin, PluginContext

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class StageDecider(Plugin):
    """Decides whether a request gets its prefill or encode stage."""

    @abstractmethod
    def wants(self, request: InferenceRequest, endpoint: Endpoint | None) -> bool:
        """Whether the stage is to run. `endpoint` is the decode stage's; None: not known yet."""


def decider_named(context: PluginContext, name: str, *, field: str) -> StageDecider | None:
    """The decider that parameter `field` refers to; None for an empty name."""
    if not name:
        return None
    kind: type[StageDecider] = StageDecider  # type: ignore[type-abstract] # to tell kinds apart
    return context.plugin(name, kind, field=field)


class AlwaysDisaggPdDecider(StageDecider):
    """Every request gets the stage."""

    type = "always-disagg-pd-decider"
    ignores_parameters = True

    def wants(self, request: InferenceRequest, endpoint: Endpoint | None) -> bool:
        """Yes."""
        return True


class AlwaysDisaggMultimodalDecider(StageDecider):
    """Requests with images, video or sound get the stage."""

    type = "always-disagg-multimodal-decider"
    ignores_parameters = True

    def __init__(self, context: PluginContext) -> None:
        self._tokens = context.consumes(TOKENIZED_PROMPT)

    def wants(self, request: InferenceRequest, endpoint: Endpoint | None) -> bool:
        """Whether any of the prompts has multi-modal features."""
        tokens = self._tokens.of_request(request)
        return tokens is not None and any(prompt.features for prompt in tokens.prompts)


class PrefixBasedPdParameters(Parameters):
    """From when on a prompt is worth a prefill stage."""

    non_cached_tokens: int = Field(
        0,
        ge=0,
        description="Fewest tokens that the decode endpoint does not hold already; 0: never.",
    )
    prompt_tokens: int = Field(
        0, ge=0, description="Fewest tokens of the whole prompt; 0: any length will do."
    )
    prefix_match_info_producer_name: str = Field(
        "", description="Producer whose prefix matches are read; empty: the default one."
    )


class PrefixBasedPdDecider(StageDecider):
    """Requests get the stage when the decode endpoint would have much to compute for them."""

    type = "prefix-based-pd-decider"

    def __init__(self, parameters: PrefixBasedPdParameters, context: PluginContext) -> None:
        self._non_cached_tokens = parameters.non_cached_tokens
        self._prompt_tokens = parameters.prompt_tokens
        self._tokens = context.consumes(TOKENIZED_PROMPT)
        self._prefix = context.consumes(
            PREFIX_MATCH, producer=parameters.prefix_match_info_producer_name or None
        )

    def wants(self, request: InferenceRequest, endpoint: Endpoint | None) -> bool:
        """Whether enough of the prompt is missing at `endpoint`; no, if that is not known."""
        if not self._non_cached_tokens or endpoint is None:
            return False
        tokens = self._tokens.of_request(request)
        match = self._prefix.of(request, endpoint)
        if tokens is None or match is None:
            return False
        count = tokens.count
        return (
            count >= self._prompt_tokens and count - match.cached_tokens >= self._non_cached_tokens
        )
