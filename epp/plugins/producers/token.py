"""Tokens of a request's prompts, estimated from its text (scheduling §12.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from epp.framework.data_types import TOKENIZED_PROMPT, TokenizedPrompt
from epp.framework.errors import ConfigError
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request_control import DataProducer
from epp.plugins.producers.media_estimate import MediaEstimate
from epp.plugins.producers.media_parameters import Estimate
from epp.plugins.producers.pseudo_tokens import PseudoTokens

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class TokenProducerParameters(Parameters):
    """The backend; without any, it is the estimate."""

    estimate: Estimate | None = Field(
        None, description="Estimate tokens from the text, and how many media become."
    )
    vllm: dict[str, Any] | None = Field(
        None, description="Ask a vLLM for the tokens: not available in this version."
    )
    model_name: str = Field(
        "", description="Model whose tokenizer is asked: not available in this version."
    )
    uds_tokenizer_config: dict[str, Any] | None = Field(
        None, description="Ask a tokenizer over a socket: not available in this version."
    )


class TokenProducer(DataProducer):
    """Estimates the tokens of a request's prompts: four bytes of text are one."""

    type = "token-producer"
    stability = Stability.BETA

    def __init__(self, parameters: TokenProducerParameters, context: PluginContext) -> None:
        _refuse_other_backends(parameters, context.name)
        self._estimate = MediaEstimate(parameters.estimate or Estimate())
        self._output = context.produces(TOKENIZED_PROMPT)

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Write the tokens of a request whose body was read; of another there are none."""
        del endpoints
        parsed = request.parsed
        if parsed is None or parsed.read_prompts is None:
            return
        prompts = PseudoTokens(self._estimate, request.headers).prompts(parsed.read_prompts())
        self._output.put(request, TokenizedPrompt(prompts, cache_salt=parsed.cache_salt))


class Tokenizer(TokenProducer):
    """The former name of `token-producer`."""

    type = "tokenizer"
    stability = Stability.DEPRECATED
    replaced_by = "token-producer"


def _refuse_other_backends(parameters: TokenProducerParameters, name: str) -> None:
    chosen = {
        "vllm": parameters.vllm is not None,
        "modelName": bool(parameters.model_name),
        "udsTokenizerConfig": parameters.uds_tokenizer_config is not None,
    }
    for field, is_set in chosen.items():
        if is_set:
            raise ConfigError(
                f"plugin {name!r}: parameters.{field}: this backend is not available in this"
                " version; allowed is `estimate`"
            )
