"""Prefers endpoints where a request means the least work, for itself and for those already there.

In tokens of prompts: cost = slowness * (W + (1 + alpha * R) * (u + a) + kappa * R + q). W is what
waits to be computed at an endpoint, R the requests in flight there, u what it lacks of this prompt,
a the loading of an adapter and q the wait for a place for it. W and R are counted here, at every
pick: no load is read from what was scraped, so none is old.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from weakref import WeakValueDictionary

from pydantic import Field

from epp.framework.data import DataType, Scope
from epp.framework.data_types import PREFIX_MATCH, SERVED_MODELS, TOKENIZED_PROMPT, PrefixMatch
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import Parameters, PluginContext, Stability
from epp.framework.request import InferenceRequest, InferenceResponse, TerminationCause
from epp.framework.request_control import PreRequest, ResponseHeader, ResponseProgress
from epp.framework.scheduling import Scorer
from epp.framework.scheduling_results import SchedulingResult
from epp.plugins.scorers.dispatched_work import Dispatch, DispatchedWork, PacedRequest
from epp.plugins.scorers.slowness import slowness_of
from epp.plugins.shared_values import computed_once

DISPATCHED_WORK: DataType[DispatchedWork] = DataType(
    name="DispatchedWork", scope=Scope.ENDPOINT, value=DispatchedWork
)
FIXED_TOKENS = 300
"""What an answer takes whatever its prompt's length, so that short prompts can be compared."""
MIN_OUTPUT_TOKENS = 8
"""Answers that are not longer than this tell nothing of the pace of decoding."""
MAX_DUMPED_ENDPOINTS = 100
MOST = 1_000_000_000
"""Of what may be configured: costs stay numbers that can be compared."""


class ExpectedWorkParameters(Parameters):
    """Parameters of `expected-work-scorer`."""

    alpha: float = Field(
        0.2,
        ge=0,
        le=MOST,
        description="Delay of each request in flight, per token that is to be computed.",
    )
    kappa: float = Field(
        100.0, ge=0, le=MOST, description="Tokens that a request in flight is worth."
    )
    adapter_load_tokens: float = Field(
        500.0, ge=0, le=MOST, description="Tokens that the loading of a LoRA adapter is worth."
    )
    adapter_slot_tokens: float = Field(
        1000.0,
        ge=0,
        le=MOST,
        description="Tokens that the wait for a place for an adapter is worth.",
    )
    slowness: bool = Field(
        True, description="Count work for more where answers take longer than elsewhere."
    )
    prefix_match_info_producer_name: str = Field(
        "", description="Producer of the matches; empty: the one there is."
    )


class ExpectedWorkScorer(Scorer, PreRequest, ResponseHeader, ResponseProgress):
    """Prefers endpoints where a request means the least work; to be used without other scorers.

    Counts are kept with the endpoint, what a request adds to them with the request: they outlive a
    reload, go with the endpoint, and return to zero whatever happens in between.
    """

    type = "expected-work-scorer"
    stability = Stability.BETA

    def __init__(self, parameters: ExpectedWorkParameters, context: PluginContext) -> None:
        self._parameters = parameters
        self._now = context.now
        self._tokens = context.consumes(TOKENIZED_PROMPT)
        self._matches = context.consumes(
            PREFIX_MATCH, producer=parameters.prefix_match_info_producer_name or None
        )
        self._served = context.consumes(SERVED_MODELS, required=False)
        self._works = context.produces(DISPATCHED_WORK)
        self._key = f"sent/{context.name}"
        self._idle = DispatchedWork()
        self._known: WeakValueDictionary[str, DispatchedWork] = WeakValueDictionary()

    def score(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """1 where the cost is lowest; elsewhere that cost in proportion."""
        costs = self.costs(request, endpoints)
        least = min(costs)
        return [least / cost for cost in costs]

    def costs(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[float]:
        """Expected work of the request at each endpoint, in tokens; at least 1."""
        key, idle = self._works.key, self._idle
        works = [endpoint.state.attributes.get(key, idle) for endpoint in endpoints]
        alpha, kappa = self._parameters.alpha, self._parameters.kappa
        costs = [
            work.waiting_tokens + (1 + alpha * work.requests) * tokens + kappa * work.requests
            for work, tokens in zip(works, self._uncached(request, endpoints), strict=True)
        ]
        adapter = self._adapter_of(request, endpoints)
        if adapter:
            costs = [
                cost + self._adapter_cost(adapter, work, endpoint.state.metrics.max_active_models)
                for cost, work, endpoint in zip(costs, works, endpoints, strict=True)
            ]
        if not self._parameters.slowness:
            return costs
        slowness = slowness_of([work.pace for work in works], self._now())
        return [cost * factor for cost, factor in zip(costs, slowness, strict=True)]

    def pre_request(self, request: InferenceRequest, result: SchedulingResult) -> None:
        """Count the request at the first endpoint of every profile."""
        sent = PacedRequest(result, self._now())
        request.attributes[self._key] = sent
        for name, profile in result.profiles.items():
            endpoint = profile.endpoints[0]
            [tokens] = self._uncached(request, (profile.picked,))
            waiting = self._work_of(endpoint).waiting_tokens
            sent.stages[name] = stage = self._dispatch(request, endpoint, tokens)
            # The wait for an adapter, or for another stage, is not the endpoint's pace.
            if len(result.profiles) == 1 and not stage.may_wait_for_adapter:
                sent.ahead_tokens = waiting + tokens

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """Move the count to the endpoint that served after the gateway's retries (pitfall 9)."""
        sent: PacedRequest | None = request.attributes.get(self._key)
        if sent is None or endpoint is None:
            return
        if sent.served_by(endpoint, lambda was: self._dispatch(request, endpoint, was.tokens)):
            sent.ahead_tokens = None

    def first_chunk(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """The prompt is computed; of an answer that streams, learn how long that took."""
        sent: PacedRequest | None = request.attributes.get(self._key)
        if sent is None:
            return
        sent.first_chunk()
        # A body that comes in one piece comes with its last token, not with its first.
        if sent.ahead_tokens is None or not response.streaming or not 200 <= response.status < 300:
            return
        sent.first_at = now = self._now()
        pace = (now - sent.at) / (sent.ahead_tokens + FIXED_TOKENS)
        self._work_of(endpoint).pace.prefill.add(pace, now)

    def ended(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint
    ) -> None:
        """Take back whatever is left; learn how fast tokens came."""
        sent: PacedRequest | None = request.attributes.pop(self._key, None)
        if sent is None:
            return
        sent.over()
        if sent.first_at is None or response.termination_cause is not TerminationCause.NATURAL:
            return
        tokens = _output_tokens(response)
        if tokens > MIN_OUTPUT_TOKENS:
            now = self._now()
            self._work_of(endpoint).pace.decode.add((now - sent.first_at) / tokens, now)

    def dump_state(self) -> object:
        """What is in flight by endpoint, most tokens first."""
        works = sorted(self._known.items(), key=lambda item: (-item[1].waiting_tokens, item[0]))
        return {
            "totalEndpoints": len(works),
            "endpoints": [
                {
                    "endpoint": name,
                    "waitingTokens": work.waiting_tokens,
                    "requests": work.requests,
                    "adapters": len(work.adapters),
                    "secondsPerPromptToken": work.pace.prefill.value,
                    "secondsPerOutputToken": work.pace.decode.value,
                }
                for name, work in works[:MAX_DUMPED_ENDPOINTS]
            ],
        }

    def _uncached(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[int]:
        prompt = self._tokens.of_request(request)
        count = 0 if prompt is None else prompt.count
        matches = self._matches.values(request, endpoints)
        return computed_once(partial(uncached_tokens, count), matches)

    def _adapter_of(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> str:
        """The model as an adapter; empty if it is known to be none."""
        model = request.target_model
        for served in self._served.on(endpoints[0]) or ():
            if served.id == model:
                return model if served.parent else ""
        return model

    def _adapter_cost(self, adapter: str, work: DispatchedWork, places: int) -> float:
        if places <= 0 or adapter in work.adapters:
            return 0.0
        parameters = self._parameters
        cost = 0.0
        if adapter not in work.recent_adapters:
            cost += (1 + parameters.alpha * work.requests) * parameters.adapter_load_tokens
        if len(work.adapters) >= places:
            cost += parameters.adapter_slot_tokens
        return cost

    def _dispatch(self, request: InferenceRequest, endpoint: Endpoint, tokens: int) -> Dispatch:
        places = endpoint.state.metrics.max_active_models
        adapter = self._adapter_of(request, (endpoint,)) if places > 0 else ""
        return Dispatch(endpoint.id, self._work_of(endpoint), tokens, adapter, places)

    def _work_of(self, endpoint: Endpoint) -> DispatchedWork:
        # Kept where one is: after a reload, requests counted before are still in flight.
        work = endpoint.state.attributes.get(self._works.key)
        if not isinstance(work, DispatchedWork):
            work = DispatchedWork()
            self._works.put_on(endpoint, work)
        self._known[f"{endpoint.namespace}/{endpoint.name}"] = work
        return work


def uncached_tokens(count: int, match: PrefixMatch | None) -> int:
    """Tokens of a prompt of `count` that are not believed to be cached; the last one never is."""
    return max(1, count - match.cached_tokens) if match is not None else max(1, count)


def _output_tokens(response: InferenceResponse) -> int:
    usage = response.usage
    reported = usage.completion_tokens if usage is not None else None
    return response.streamed_events if reported is None else reported
