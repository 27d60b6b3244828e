"""Where the request log of this process goes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO, cast

from epp.observability.background_stream import BackgroundStream
from epp.observability.request_log import RequestLog

if TYPE_CHECKING:
    from epp.app.options import ServeOptions


class RequestLines:
    """The request log, if there is one: on a stream of the caller's, or on standard output."""

    def __init__(self, options: ServeOptions, stream: TextIO | None) -> None:
        self.log: RequestLog | None = None
        self._own: BackgroundStream | None = None
        if not options.request_log:
            return
        if stream is None:
            self._own = BackgroundStream(sys.stdout)
            # A text stream in everything but its static type.
            stream = cast("TextIO", self._own)
        self.log = RequestLog(stream, options.log_format)

    def close(self) -> None:
        """Write what is left."""
        if self._own is not None:
            self._own.close()
