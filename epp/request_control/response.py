"""The response of one request as it streams by: usage, times, and the model's own name back.

The bytes are the client's: nothing here may hold them up, lose or change them, but for the model
name of a rewritten request (protocol §7.3).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from epp.framework.request import InferenceResponse, TerminationCause
from epp.request_control.outliers import is_error
from epp.request_control.response_headers import (
    headers_of_ours,
    is_readable,
    is_streaming,
    status_of,
)
from epp.request_control.response_rewriting import BodyPolicy, model_rewriter
from epp.support.fault_log import FaultLog
from epp.support.plugin_faults import PLUGIN_FAULTS

if TYPE_CHECKING:
    from epp.datastore.datastore import Datastore
    from epp.framework.headers import Headers
    from epp.framework.request import MetadataValue
    from epp.framework.request_handling import ResponseReader
    from epp.observability.metrics import Metrics
    from epp.request_control.active_request import ActiveRequest
    from epp.request_control.body_hooks import BodyHooks
    from epp.request_control.parser_steps import ParserSteps
    from epp.request_control.response_headers import ResponseSettings
    from epp.support.model_names import ModelRewriter

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseContext:
    """What the response phases of all requests share."""

    datastore: Datastore
    body_hooks: BodyHooks
    metrics: Metrics
    settings: ResponseSettings
    parsing: ParserSteps
    now: Callable[[], float] = time.monotonic
    faults: FaultLog = field(default_factory=lambda: FaultLog("response phase failed", log.warning))


class ResponsePhase:
    """Follows one response. Without an active request it only passes bytes on."""

    __slots__ = (
        "_active",
        "_context",
        "_last_chunk_at",
        "_reader",
        "_reading_seconds",
        "_response",
        "_rewriter",
        "request_id",
        "rewrites",
    )

    def __init__(self, active: ActiveRequest | None, context: ResponseContext) -> None:
        self._active = active if active is not None and not active.ended else None
        self.request_id = "" if self._active is None else self._active.request.id
        self._context = context
        self._reader: ResponseReader | None = None
        self._rewriter: ModelRewriter | None = None
        self._response: InferenceResponse | None = None
        self._last_chunk_at = 0.0
        self._reading_seconds = 0.0
        self.rewrites = False
        """Whether body bytes may change."""

    @property
    def held_bytes(self) -> int:
        """Length of what was taken to be rewritten and has not been given back."""
        return self._rewriter.held_bytes if self._rewriter is not None else 0

    def begin(
        self,
        headers: Headers,
        *,
        served: str | None,
        metadata: Mapping[str, Mapping[str, MetadataValue]],
        policy: BodyPolicy,
        is_gateways_own: Callable[[], bool] = lambda: False,
    ) -> dict[str, bytes | None]:
        """Take the response headers; gives the changes to answer with.

        `is_gateways_own` tells of an error whether the gateway made it, and no endpoint had a part
        in it.
        """
        active, context = self._active, self._context
        if active is None:
            return headers_of_ours(context.settings, None)
        self._credit(active, served)
        status = status_of(headers)
        active.is_answered_by_gateway = is_error(status) and is_gateways_own()
        active.response_started_at = context.now()
        media_type = (headers.get("content-type") or "").lower()
        streaming = is_streaming(media_type, active)
        response = InferenceResponse(
            headers=headers,
            status=status,
            streaming=streaming,
            started=True,
            metadata=metadata,
            body_is_seen=policy is not BodyPolicy.UNSEEN,
        )
        active.response = self._response = response
        active.hooks.response_header(active.request, response, active.serving)
        context.body_hooks.notify(active)
        if response.body_is_seen and is_readable(headers):
            self._reader = self._new_reader(active, streaming=streaming)
            self._rewriter = model_rewriter(active, media_type, policy, streaming=streaming)
            self.rewrites = self._rewriter is not None
        changes = dict(response.headers.changes)
        if self._rewriter is not None and policy is not BodyPolicy.WHOLE:
            changes["content-length"] = None
        changes.update(headers_of_ours(context.settings, active))
        return changes

    def rewrite(self, chunk: bytes, *, end: bool) -> bytes:
        """The bytes to give back for `chunk`; only to be called when `rewrites`."""
        rewriter = self._rewriter
        if rewriter is None:
            return chunk
        try:
            return rewriter.feed(chunk, end)
        except PLUGIN_FAULTS as error:  # the response goes through (decision 1)
            self._fault("rewriting the model", error)
            self._rewriter = None
            self.rewrites = False
            return rewriter.held + chunk

    @property
    def tells_metadata(self) -> bool:
        """Whether the gateway is told something with the end of the body."""
        active = self._active
        return active is not None and active.hooks.tell_metadata

    def metadata(self, last: bytes) -> dict[str, dict[str, MetadataValue]]:
        """What to tell with `last`, the last piece of the body, which `observe` is shown after."""
        active, response = self._active, self._response
        if active is None or response is None:
            return {}
        self._read(last, self._context.now())
        self._finish_reading(active, response)
        return active.hooks.response_metadata(active.request, response)

    def observe(self, chunk: bytes, end: bool = False) -> None:
        """Count a piece that has been answered; the last one ends the request."""
        active, response = self._active, self._response
        if active is None or response is None:
            return
        now = self._context.now
        started = now()
        if self._reader is not None:
            self._read(chunk, started)
        if chunk:
            response.body_bytes += len(chunk)
            if active.first_byte_at is None:
                self._first_chunk(active, response, started)
            elif response.streaming and active.metrics is not None:
                active.metrics.piece_followed(started - self._last_chunk_at)
            self._last_chunk_at = started
        if end:
            self.end(TerminationCause.NATURAL)
        elif active.hooks.follow_body:
            self._context.body_hooks.notify(active)
        active.processing_seconds += now() - started

    def _first_chunk(self, active: ActiveRequest, response: InferenceResponse, now: float) -> None:
        active.first_byte_at = now
        if active.endpoints:
            endpoint = active.serving or active.endpoints[0]
            active.hooks.first_chunk(active.request, response, endpoint)

    def end(self, cause: TerminationCause) -> None:
        """Close the books; later calls do nothing."""
        active, response = self._active, self._response
        self._active = None
        if active is None:
            return
        if response is not None:
            self._finish_reading(active, response)
        active.end(cause)

    def _new_reader(self, active: ActiveRequest, *, streaming: bool) -> ResponseReader | None:
        if active.parser is None:
            return None
        try:
            return active.parser.response_reader(streaming=streaming)
        except PLUGIN_FAULTS as error:  # the response goes through (decision 1)
            self._fault("reading usage", error)
            return None

    def _read(self, chunk: bytes, started: float) -> None:
        if self._reader is None:
            return
        try:
            self._reader.feed(chunk)
        except PLUGIN_FAULTS as error:  # the response goes through (decision 1)
            self._fault("reading usage", error)
            self._reader = None
        self._reading_seconds += self._context.now() - started

    def _finish_reading(self, active: ActiveRequest, response: InferenceResponse) -> None:
        reader, self._reader = self._reader, None
        if reader is None or active.parser is None:
            return
        now = self._context.now
        started = now()
        try:
            response.usage = reader.finish()
            response.streamed_events = reader.streamed_events
        except PLUGIN_FAULTS as error:  # the response goes through (decision 1)
            self._fault("reading usage", error)
        self._context.parsing.of(active.parser).took(self._reading_seconds + now() - started)

    def _credit(self, active: ActiveRequest, served: str | None) -> None:
        if served is None or active.serving is None or served == active.serving.address:
            return
        by_address = self._context.datastore.snapshot().by_address
        # Picks first: behind a sidecar all ranks of a pod share an address.
        picks = (each for each in active.endpoints if each.address == served)
        endpoint = next(picks, None) or by_address.get(served)
        if endpoint is not None:
            active.served_by(endpoint)

    def _fault(self, step: str, error: BaseException) -> None:
        self._context.metrics.response_phase_error()
        self._context.faults.tell(step, error, step=step, request_id=self.request_id)
