"""Choice of a parser, the path it is chosen by, and content codings."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from epp.framework.errors import ErrorCode, Rejection
from epp.framework.headers import Headers
from epp.framework.parsed_request import ParsedRequest
from epp.framework.request_handling import Parser
from epp.plugins.parsers.defaults import default_parsers
from epp.plugins.parsers.openai import OpenAIParser
from epp.request_control.incoming import request_path
from epp.request_control.parsing import ParserSelector
from epp.request_control.parsing import decoded as decoding
from epp.support.tasks import completed

LIMIT = 1 << 26
BODY = b'{"model":"m","prompt":"a"}'
NAMES = "gzip, deflate, zstd, identity"


def claiming(name: str, *claims: str) -> Parser:
    class Claiming(Parser):
        type = name
        suffixes = claims

        def parse_request(self, path: str, body: bytes) -> ParsedRequest:
            return ParsedRequest(api=self.type)

    return Claiming()


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-zlib.MAX_WBITS)


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    " GZIP ": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize(
    ("path", "parser"),
    [
        ("/v1/completions", "openai-parser"),
        ("/v1/chat/completions/ ", "openai-parser"),
        ("completions", "openai-parser"),
        ("/v1/messages", "anthropic-parser"),
        ("/v1/messages/count_tokens", "anthropic-parser"),
        ("/v1/mycompletions", "passthrough-parser"),
        ("/v2/infer", "passthrough-parser"),
        ("/v1/completions/x", "passthrough-parser"),
        ("", "passthrough-parser"),
    ],
)
def test_the_default_parsers_are_chosen_by_path(path: str, parser: str) -> None:
    assert ParserSelector(default_parsers()).select(path).type == parser


def test_the_longest_suffix_wins_and_then_the_first_parser() -> None:
    selector = ParserSelector(
        [claiming("short", "b"), claiming("first", "/a/b/"), claiming("second", "a/b")]
    )

    assert selector.select("/a/b").type == "first"
    assert selector.select("/c/b").type == "short"
    assert selector.select("/ca/b").type == "short"


def test_a_path_nobody_claims_is_refused_without_a_fallback() -> None:
    with pytest.raises(Rejection) as caught:
        ParserSelector([OpenAIParser()]).select("/v2/infer")

    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert caught.value.message == "no parser registered matching path suffix for: /v2/infer"


def test_parsers_that_can_never_be_chosen_are_dropped_with_a_warning() -> None:
    first, twin = claiming("a", "x"), claiming("a", "y")
    fallback, late = claiming("fallback"), claiming("late", "z")

    with capture_logs() as logs:
        selector = ParserSelector([first, twin, fallback, late])

    assert selector.select("/x") is first
    assert selector.select("/y") is fallback
    assert selector.select("/z") is fallback
    assert [(entry["log_level"], entry["parser"]) for entry in logs] == [
        ("warning", "a"),
        ("warning", "late"),
    ]


@pytest.mark.parametrize(
    ("headers", "path"),
    [
        ([(":path", b"/v1/completions?beta=1")], "/v1/completions"),
        ([("x-forwarded-path", b"/f"), ("x-original-path", b"/o"), (":path", b"/p")], "/p"),
        ([("x-forwarded-path", b"/f"), ("x-original-path", b"/o?x")], "/o"),
        ([("x-forwarded-path", b"/f"), (":path", b"")], "/f"),
        ([(":path", b"/\xff")], "/\ufffd"),
        ([], "/v1/completions"),
    ],
)
def test_the_path_comes_from_the_first_header_that_has_it(
    headers: list[tuple[str, bytes]], path: str
) -> None:
    assert request_path(Headers(headers)) == path


def decoded(body: bytes, coding: str, limit: int) -> bytes:
    return completed(decoding(body, coding, limit, in_turns=False))


@pytest.mark.parametrize("coding", ENCODERS)
@pytest.mark.parametrize("size", [0, 1, 700_000], ids=["empty", "one byte", "large"])
def test_a_body_in_a_known_coding_is_decoded(coding: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    assert decoded(ENCODERS[coding](body), coding, LIMIT) == body


@pytest.mark.parametrize("coding", ["", "identity", " Identity "])
def test_a_body_without_a_coding_is_itself(coding: str) -> None:
    assert decoded(BODY, coding, 1) is BODY


def test_members_and_padding_of_gzip_are_read_in_turn() -> None:
    body = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0" * 100

    assert decoded(body, "gzip", LIMIT) == b"one two"


def test_frames_of_zstd_are_read_in_turn() -> None:
    body = zstandard.compress(b"one ") + zstandard.compress(b"two" * 100_000)

    assert decoded(body, "zstd", LIMIT) == b"one " + b"two" * 100_000


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
@pytest.mark.parametrize("damage", ["cut", "noise", "tail", "nothing"])
def test_broken_data_are_refused_with_what_is_supported(coding: str, damage: str) -> None:
    whole = ENCODERS[coding](BODY)
    broken = {"cut": whole[:-5], "noise": b"\xff" * 9, "tail": whole + b"x", "nothing": b""}

    with pytest.raises(Rejection) as caught:
        decoded(broken[damage], coding, LIMIT)

    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert caught.value.message == (
        f"content-encoding: the body is not valid {coding}; supported are {NAMES}"
    )


@pytest.mark.parametrize("coding", ["br", "gzip, gzip", "\ufffd", "compress"])
def test_an_unknown_coding_is_refused_with_what_is_supported(coding: str) -> None:
    with pytest.raises(Rejection) as caught:
        decoded(BODY, coding, LIMIT)

    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert caught.value.message == (
        f"content-encoding: {coding!r} is not supported; one of {NAMES}"
    )
    assert caught.value.log_message == f"content-encoding is not supported; one of {NAMES}"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_a_body_may_be_as_long_as_the_limit_and_not_a_byte_longer(coding: str) -> None:
    body = ENCODERS[coding](b"abc" * 1000)

    assert decoded(body, coding, 3000) == b"abc" * 1000
    with pytest.raises(Rejection) as caught:
        decoded(body, coding, 2999)

    assert caught.value.code is ErrorCode.PAYLOAD_TOO_LARGE
    assert caught.value.message == (
        f"request body of more than 2999 bytes when decoded from {coding}"
    )


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_a_body_that_grows_out_of_proportion_is_refused(coding: str) -> None:
    body = ENCODERS[coding](b"\0" * 30_000_000)

    with pytest.raises(Rejection) as caught:
        decoded(body, coding, LIMIT)

    assert caught.value.code is ErrorCode.PAYLOAD_TOO_LARGE
    assert caught.value.message == (
        f"request body grows more than 20 times when decoded from {coding}"
    )


def test_a_small_body_may_grow_out_of_proportion() -> None:
    assert decoded(gzip.compress(b"a" * 1_000_000), "gzip", LIMIT) == b"a" * 1_000_000


def test_a_body_of_countless_members_is_refused() -> None:
    body = gzip.compress(b"") * 1001

    with pytest.raises(Rejection, match="not valid gzip"):
        decoded(body, "gzip", LIMIT)


def test_what_follows_many_members_is_not_read_again_after_each() -> None:
    class Counted(bytes):
        def count(self, *_: object) -> int:
            raise AssertionError("this reads all of the rest")

    body = Counted(gzip.compress(b"") * 900 + b"\0" * 1000 + b"x")

    with pytest.raises(Rejection, match="not valid gzip"):
        decoded(body, "gzip", LIMIT)


@given(st.binary(), st.sampled_from(["gzip", "deflate", "zstd"]))
def test_any_bytes_are_decoded_or_refused(noise: bytes, coding: str) -> None:
    for body in (noise, ENCODERS[coding](BODY)[:12] + noise):
        try:
            assert len(decoded(body, coding, 1000)) <= 1000
        except Rejection as rejection:
            assert rejection.http_status in (400, 413)  # noqa: PT017 - it need not be raised
