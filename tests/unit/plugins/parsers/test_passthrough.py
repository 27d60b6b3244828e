"""The fallback for paths nobody claims."""

from __future__ import annotations

import pytest

from epp.framework.parsed_request import ParsedRequest
from epp.plugins.parsers.defaults import default_parsers
from epp.plugins.parsers.passthrough import PassthroughParser


@pytest.mark.parametrize("body", [b"", b"raw bytes", b'{"model":"m"}', b"\xff"])
def test_any_body_is_taken_without_a_look(body: bytes) -> None:
    parser = PassthroughParser()

    assert parser.parse_request("/v2/infer", body) == ParsedRequest(api="")
    assert parser.response_reader(streaming=True) is None


def test_the_default_parsers_end_with_the_fallback() -> None:
    types = [parser.type for parser in default_parsers()]

    assert types == [
        "openai-parser",
        "anthropic-parser",
        "vllmhttp-parser",
        "passthrough-parser",
    ]
