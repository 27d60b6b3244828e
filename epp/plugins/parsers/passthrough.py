"""The fallback for every path nobody claims: KServe, audio uploads, plain text (protocol §5.7)."""

from __future__ import annotations

from epp.framework.parsed_request import ParsedRequest
from epp.framework.plugin import Stability
from epp.framework.request_handling import Parser


class PassthroughParser(Parser):
    """Takes any body without looking at it."""

    type = "passthrough-parser"
    stability = Stability.BETA

    def parse_request(self, path: str, body: bytes) -> ParsedRequest:
        """An empty description, whatever the body."""
        del path, body
        return ParsedRequest(api="")
