"""Which parser reads a body, and what of it (protocol §5.1, §5.8)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from epp.framework.errors import ErrorCode, PlainRejection, Rejection
from epp.request_control.incoming import is_path_told
from epp.support.decompression import (
    CODINGS,
    BodyLimitError,
    CorruptBodyError,
    decompress,
)
from epp.support.path_suffixes import has_path_suffix, trimmed_path
from epp.support.tasks import stepped

if TYPE_CHECKING:
    from epp.framework.parsed_request import ParsedRequest
    from epp.framework.request import InferenceRequest
    from epp.framework.request_handling import Parser

log = structlog.get_logger(__name__)

MAX_RATIO = 20
"""How many times its length a body may have when decoded."""
_PATHS_BY_BODY = ("/v1/chat/completions", "/v1/responses")
"""Told apart by the members they need. The second stands for embeddings, too."""
RATIO_FREE_BYTES = 1024 * 1024
"""Decoded size up to which the ratio is not looked at."""


class ParserSelector:
    """Chooses the parser of a path: the longest suffix, then the order of configuration."""

    def __init__(self, parsers: Sequence[Parser]) -> None:
        self._fallback: Parser | None = None
        claims: list[tuple[str, Parser]] = []
        for parser in _usable(parsers):
            if not parser.suffixes:
                self._fallback = parser
            claims += ((suffix.strip("/"), parser) for suffix in parser.suffixes)
        self.has_fallback = self._fallback is not None
        """Whether bodies of any path are taken."""
        self._claims: dict[str, list[tuple[str, Parser]]] = {}
        """By the last segment of the suffix, which is that of the path."""
        for claim in sorted(claims, key=lambda claim: -len(claim[0])):
            self._claims.setdefault(_last_segment(claim[0]), []).append(claim)

    def select(self, path: str) -> Parser:
        """The parser of `path`; raises `Rejection` when nobody claims it."""
        trimmed = trimmed_path(path)
        for suffix, parser in self._claims.get(_last_segment(trimmed), ()):
            if has_path_suffix(trimmed, suffix):
                return parser
        if self._fallback is None:
            message = f"no parser registered matching path suffix for: {path}"
            raise PlainRejection(ErrorCode.BAD_REQUEST, message)
        return self._fallback


def _last_segment(path: str) -> str:
    return path.rpartition("/")[2]


def _usable(parsers: Sequence[Parser]) -> list[Parser]:
    usable: list[Parser] = []
    for index, parser in enumerate(parsers):
        if any(parser.type == other.type for other in usable):
            log.warning("parser ignored: its type is configured already", parser=parser.type)
            continue
        usable.append(parser)
        if not parser.suffixes:
            for unreachable in parsers[index + 1 :]:
                log.warning(
                    "parser ignored: it follows the fallback",
                    parser=unreachable.type,
                    fallback=parser.type,
                )
            break
    return usable


async def read_body(
    parser: Parser,
    body: bytes,
    request: InferenceRequest,
    *,
    limit: int,
    may_be_cut: bool,
    has_fallback: bool,
    in_turns: bool,
) -> bytes:
    """Set `request.parsed`; gives the decoded body.

    One that the gateway may have cut, and that can't be read, is left to the model server; so is
    one whose path nobody told, if paths that nobody knows are.
    """
    try:
        coding = request.headers.get("content-encoding") if parser.suffixes else None
        if coding:
            body = await decoded(body, coding, limit, in_turns=in_turns)
        request.parsed = _parsed(parser, request, body, has_fallback=has_fallback)
    except Rejection:
        if not may_be_cut:
            raise
    return body


def _parsed(
    parser: Parser, request: InferenceRequest, body: bytes, *, has_fallback: bool
) -> ParsedRequest | None:
    """Read `body` as its path says, or, where no header tells that, as whatever it can be."""
    try:
        return parser.parse_request(request.path, body)
    except Rejection:
        if is_path_told(request.headers):
            raise
        for path in _PATHS_BY_BODY:
            with suppress(Rejection):
                parsed = parser.parse_request(path, body)
                request.path = path
                return parsed
        if not has_fallback:
            raise
        return None


async def decoded(body: bytes, content_encoding: str, limit: int, *, in_turns: bool) -> bytes:
    """`body` as it reads without its content coding, at most `limit` bytes long."""
    coding = content_encoding.strip().lower()
    coding = "gzip" if coding == "x-gzip" else coding
    if coding in ("", "identity"):
        return body
    allowed = ", ".join((*CODINGS, "identity"))
    if coding not in CODINGS:
        raise Rejection(
            ErrorCode.BAD_REQUEST,
            f"content-encoding: {content_encoding[:64]!r} is not supported; one of {allowed}",
            log_message=f"content-encoding is not supported; one of {allowed}",
        )
    ratio_limit = max(RATIO_FREE_BYTES, MAX_RATIO * len(body))
    try:
        steps = decompress(coding, body, min(limit, ratio_limit))
        return await stepped(steps, in_turns=in_turns)
    except BodyLimitError as error:
        raise _too_large(coding, limit, ratio_limit) from error
    except CorruptBodyError as error:
        message = f"content-encoding: the body is not valid {coding}; supported are {allowed}"
        raise PlainRejection(ErrorCode.BAD_REQUEST, message) from error


def _too_large(coding: str, limit: int, ratio_limit: int) -> Rejection:
    if limit <= ratio_limit:
        message = f"request body of more than {limit} bytes when decoded from {coding}"
    else:
        message = f"request body grows more than {MAX_RATIO} times when decoded from {coding}"
    return PlainRejection(ErrorCode.PAYLOAD_TOO_LARGE, message)
