"""What is measured of one request, and what of it at most once or in pairs."""

from __future__ import annotations

from epp.framework.usage import Usage
from epp.observability.request_series import RequestSeries


class RequestMetrics:
    """Measures one request. What must happen at most once, or in pairs, does."""

    __slots__ = ("_has_error", "_is_running", "_series")

    def __init__(self, series: RequestSeries) -> None:
        self._series = series
        self._is_running = False
        self._has_error = False

    def admitted(self, size_bytes: int) -> None:
        """An endpoint was picked; `size_bytes` is the body as forwarded."""
        self._series.total.inc()
        self._series.size.observe(size_bytes)

    def running_started(self) -> None:
        """The body went back to the gateway. Not counted when the model name is empty."""
        if not self._is_running and self._series.values[0]:
            self._is_running = True
            self._series.running.inc()

    def running_ended(self) -> None:
        """The stream is over, however it ended; undoes `running_started` if that was called."""
        if self._is_running:
            self._is_running = False
            self._series.running.dec()

    def error(self, code: str) -> None:
        """The request ended with an error; only the first one counts."""
        if not self._has_error:
            self._has_error = True
            self._series.error(code).inc()

    def piece_followed(self, seconds: float) -> None:
        """A piece of a streamed response body came so long after the one before."""
        self._series.inter_token.observe(seconds)

    def completed(
        self,
        *,
        seconds: float,
        response_bytes: int | None,
        streaming: bool,
        ttft_seconds: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        """The response reached its natural end, `seconds` after the request's headers.

        `response_bytes` is None where bodies are not shown.
        """
        series = self._series
        if seconds > 0:
            series.duration.observe(seconds)
        if response_bytes is not None:
            series.response_size.observe(response_bytes)
        if ttft_seconds is not None:
            ttft = series.ttft_streaming if streaming else series.ttft_whole
            ttft.observe(ttft_seconds)
        if usage is None:
            return
        self._tokens(usage)
        generated = usage.completion_tokens or 0
        if generated > 0:
            series.ntpot.observe(seconds / generated)
        if streaming and generated > 1 and ttft_seconds is not None:
            series.tpot.observe((seconds - ttft_seconds) / (generated - 1))

    def _tokens(self, usage: Usage) -> None:
        series = self._series
        if usage.prompt_tokens:
            series.input_tokens.observe(usage.prompt_tokens)
        if usage.completion_tokens:
            series.output_tokens.observe(usage.completion_tokens)
        if usage.cached_tokens is not None:
            series.cached_tokens.observe(usage.cached_tokens)
