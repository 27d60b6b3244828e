"""Counts what was sent to each endpoint and is not done, stage by stage (scheduling §12.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from epp.framework.data_layer import EndpointListener
from epp.framework.data_types import (
    IN_FLIGHT_LOAD,
    PREFIX_MATCH,
    TOKENIZED_PROMPT,
    UNCACHED_REQUEST_TOKENS,
    InFlightLoad,
    PrefixMatch,
)
from epp.framework.endpoint import Endpoint, EndpointId
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest, InferenceResponse
from epp.framework.request_control import (
    DataProducer,
    PreRequest,
    ResponseHeader,
    ResponseProgress,
)
from epp.framework.scheduling_results import SchedulingResult
from epp.plugins.producers.inflight_series import (
    INFLIGHT_REQUESTS,
    INFLIGHT_TOKENS,
    InflightSeries,
    Labels,
)
from epp.plugins.sent_requests import SentRequest, SentStage
from epp.plugins.shared_values import computed_once

MAX_DUMPED_ENDPOINTS = 100


class InflightLoadParameters(Parameters):
    """Parameters of `inflight-load-producer`."""

    add_estimated_output_tokens: bool = Field(
        False, description="Count tokens that are expected to be generated as well."
    )
    output_ratio: float = Field(
        1.5,
        ge=0,
        le=1_000_000,
        description="Tokens expected to be generated for each token of the prompt.",
    )
    max_estimated_output_tokens: int | None = Field(
        None, ge=0, description="Most tokens a request is expected to generate; unset: no limit."
    )
    prefix_match_info_producer_name: str = Field(
        "",
        description="Producer of the matches that discount cached tokens; empty: the one there is.",
    )
    sync_cross_replica_state: bool = Field(
        True, description="Ignored: every replica counts what it has sent itself."
    )


class _CountedStage(SentStage):
    """What one request adds to the counts of one endpoint."""

    __slots__ = ("_labels", "_load", "_requests", "_series", "_tokens_stay", "tokens")

    def __init__(
        self,
        endpoint: EndpointId,
        load: InFlightLoad,
        series: InflightSeries,
        labels: Labels,
        *,
        tokens: int,
        tokens_stay: bool,
    ) -> None:
        super().__init__(endpoint)
        self.tokens = tokens
        self._requests = 1
        self._load = load
        self._series = series
        self._labels = labels
        self._tokens_stay = tokens_stay
        self._add(1, tokens)

    def first_chunk(self) -> None:
        """Take back the tokens, unless some of them are yet to be generated."""
        if not self._tokens_stay:
            self._take_back(0)

    def over(self) -> None:
        """Take back the request, too."""
        self._take_back(self._requests)

    def _take_back(self, requests: int) -> None:
        self._add(-requests, -self.tokens)
        self._requests -= requests
        self.tokens = 0

    def _add(self, requests: int, tokens: int) -> None:
        if requests or tokens:
            self._load.requests += requests
            self._load.tokens += tokens
            self._series.add(self._labels, requests, tokens)


class InflightLoadProducer(
    DataProducer, PreRequest, ResponseHeader, ResponseProgress, EndpointListener
):
    """Tells how many requests and tokens are in flight at each endpoint, by its own picks.

    Every number that is added is kept with the request and taken back from the same object, so
    that counts return to zero whatever happens to requests and endpoints in between.
    """

    type = "inflight-load-producer"
    stability = Stability.BETA
    metrics = (INFLIGHT_REQUESTS, INFLIGHT_TOKENS)

    def __init__(self, parameters: InflightLoadParameters, context: PluginContext) -> None:
        self._parameters = parameters
        self._tokens = context.consumes(TOKENIZED_PROMPT)
        self._matches = context.consumes(
            PREFIX_MATCH,
            producer=parameters.prefix_match_info_producer_name or None,
            required=False,
        )
        self._loads = context.produces(IN_FLIGHT_LOAD)
        self._uncached = context.produces(UNCACHED_REQUEST_TOKENS)
        self._key = f"in-flight/{context.name}"
        self._series = InflightSeries(context.name)
        context.metrics.computed(INFLIGHT_REQUESTS, context.name, self._series.requests)
        context.metrics.computed(INFLIGHT_TOKENS, context.name, self._series.tokens)

    def produce(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> None:
        """Tell how many tokens the request would add to each endpoint."""
        count = self._prompt_tokens(request)
        output = self._expected_output(request, count)
        matches = self._matches.values(request, endpoints)
        added = computed_once(lambda match: uncached_tokens(count, match) + output, matches)
        self._uncached.put_all(request, dict(zip(endpoints, added, strict=True)))

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """Count the request at the first endpoint of every profile."""
        added = request.candidate_attributes.get(self._uncached.key, {})
        count = self._prompt_tokens(request)
        of_others = count + self._expected_output(request, count)
        sent: SentRequest[_CountedStage] = SentRequest(result)
        request.attributes[self._key] = sent
        for name, profile in result.profiles.items():
            tokens = added.get(profile.picked, of_others)
            sent.stages[name] = self._count(request, profile.endpoints[0], tokens)

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """Move the count to the endpoint that served after the gateway's retries (pitfall 9)."""
        sent: SentRequest[_CountedStage] | None = request.attributes.get(self._key)
        if sent is not None and endpoint is not None:
            sent.served_by(endpoint, lambda was: self._count(request, endpoint, was.tokens))

    def first_chunk(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """The prompt is computed: prefill is done, and so are the tokens of the prompt."""
        sent: SentRequest[_CountedStage] | None = request.attributes.get(self._key)
        if sent is not None:
            sent.first_chunk()

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """Take back whatever is left."""
        sent: SentRequest[_CountedStage] | None = request.attributes.pop(self._key, None)
        if sent is not None:
            sent.over()

    def endpoint_added(self, endpoint: Endpoint) -> None:
        """Let the load of an idle endpoint be read too."""
        self._load_of(endpoint)

    def dump_state(self) -> object:
        """Requests and tokens in flight by endpoint, the busiest first."""
        loads = sorted(self._series.by_endpoint().items(), key=lambda item: (-item[1][0], item[0]))
        return {
            "totalEndpoints": len(loads),
            "endpoints": [
                {"endpoint": endpoint, "requests": requests, "tokens": tokens}
                for endpoint, (requests, tokens) in loads[:MAX_DUMPED_ENDPOINTS]
            ],
        }

    def _prompt_tokens(self, request: InferenceRequest) -> int:
        prompt = self._tokens.of_request(request)
        return prompt.count if prompt is not None else 0

    def _expected_output(self, request: InferenceRequest, prompt_tokens: int) -> int:
        parameters = self._parameters
        if not parameters.add_estimated_output_tokens:
            return 0
        expected = math.floor(prompt_tokens * parameters.output_ratio + 0.5)
        asked = request.parsed.max_output_tokens if request.parsed is not None else None
        for limit in (asked, parameters.max_estimated_output_tokens):
            if limit is not None:
                expected = min(expected, max(limit, 0))
        return expected

    def _load_of(self, endpoint: Endpoint) -> InFlightLoad:
        # Kept where one is: after a reload, requests counted before are still in flight.
        load = endpoint.state.attributes.get(self._loads.key)
        if not isinstance(load, InFlightLoad):
            load = InFlightLoad()
            self._loads.put_on(endpoint, load)
        return load

    def _count(self, request: InferenceRequest, endpoint: Endpoint, tokens: int) -> _CountedStage:
        return _CountedStage(
            endpoint.id,
            self._load_of(endpoint),
            self._series,
            self._series.labels(request, endpoint),
            tokens=tokens,
            tokens_stay=self._parameters.add_estimated_output_tokens,
        )


def uncached_tokens(prompt_tokens: int, match: PrefixMatch | None) -> int:
    """Tokens of a prompt that an endpoint has to compute."""
    if match is None or match.block_size_tokens <= 0:
        return prompt_tokens
    missing = (match.total_blocks - match.match_blocks) * match.block_size_tokens
    beyond = prompt_tokens - match.total_blocks * match.block_size_tokens
    return max(0, missing) + max(0, beyond)
