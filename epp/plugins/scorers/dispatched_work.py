"""What was sent to one endpoint and is not done: tokens to compute, sequences, adapters."""

from __future__ import annotations

from epp.framework.endpoint import EndpointId
from epp.framework.scheduling_results import SchedulingResult
from epp.plugins.scorers.slowness import Pace
from epp.plugins.sent_requests import SentRequest, SentStage

MAX_RECENT_ADAPTERS = 256
MAX_ADAPTER_LENGTH = 256
"""Longer names are not remembered: clients choose them."""


class DispatchedWork:
    """The work of one endpoint, and how fast it has been. Lives as long as the endpoint."""

    __slots__ = ("__weakref__", "adapters", "pace", "recent_adapters", "requests", "waiting_tokens")

    def __init__(self) -> None:
        self.waiting_tokens = 0
        """Of requests whose first chunk has not come: the prefill queue."""
        self.requests = 0
        """Those whose stream has not ended."""
        self.adapters: dict[str, int] = {}
        """Requests in flight by adapter."""
        self.recent_adapters: dict[str, None] = {}
        """Those sent here last, the latest at the end; the engine is taken to hold them."""
        self.pace = Pace()

    def adapter_sent(self, adapter: str, places: int) -> None:
        """Note an adapter in flight at an engine that holds as many as it has `places`."""
        self.adapters[adapter] = self.adapters.get(adapter, 0) + 1
        recent = self.recent_adapters
        recent.pop(adapter, None)
        if len(adapter) <= MAX_ADAPTER_LENGTH:
            recent[adapter] = None
        while len(recent) > min(places, MAX_RECENT_ADAPTERS):
            del recent[next(iter(recent))]

    def adapter_done(self, adapter: str) -> None:
        """Take back one `adapter_sent`."""
        left = self.adapters[adapter] - 1
        if left:
            self.adapters[adapter] = left
        else:
            del self.adapters[adapter]


class Dispatch(SentStage):
    """The work that one request adds to one endpoint."""

    __slots__ = (
        "_adapter",
        "_is_over",
        "_is_waiting",
        "_work",
        "may_wait_for_adapter",
        "tokens",
    )

    def __init__(
        self, endpoint: EndpointId, work: DispatchedWork, tokens: int, adapter: str, places: int
    ) -> None:
        super().__init__(endpoint)
        self.tokens = tokens
        self.may_wait_for_adapter = bool(adapter) and (
            adapter not in work.recent_adapters or bool(work.adapters.keys() - {adapter})
        )
        """Whether its adapter may have to be loaded, or others be loaded before."""
        self._adapter = adapter
        self._work = work
        self._is_waiting = True
        self._is_over = False
        work.waiting_tokens += tokens
        work.requests += 1
        if adapter:
            work.adapter_sent(adapter, places)

    def first_chunk(self) -> None:
        """Take its tokens out of the prefill queue."""
        if self._is_waiting:
            self._is_waiting = False
            self._work.waiting_tokens -= self.tokens

    def over(self) -> None:
        """Take back the request and its adapter, too."""
        if self._is_over:
            return
        self._is_over = True
        self.first_chunk()
        self._work.requests -= 1
        if self._adapter:
            self._work.adapter_done(self._adapter)


class PacedRequest(SentRequest[Dispatch]):
    """A request under way, and when it passed its turning points."""

    __slots__ = ("ahead_tokens", "at", "first_at")

    def __init__(self, result: SchedulingResult, at: float) -> None:
        super().__init__(result)
        self.at = at
        self.ahead_tokens: int | None = None
        """Of prompts, to be computed before its first token comes; None: its times tell nothing."""
        self.first_at: float | None = None
