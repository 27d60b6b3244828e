"""Session ids from headers and cookies."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from epp.framework.data_types import SESSION_ID
from epp.framework.headers import Headers
from epp.plugins.producers.session_id import SessionIdProducer
from epp.testing import FakeContext, built, request_of


def session_id(headers: list[tuple[str, bytes]], **parameters: str) -> object:
    made = built(SessionIdProducer, FakeContext("session-id-producer"), **parameters)
    request = request_of()
    request.headers = Headers(headers)
    made.produce(request, [])
    return request.attributes.get(SESSION_ID.key("session-id-producer"))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("x-session", b" s1 ")], "s1"),
        ([("x-session", b"  ")], None),
        ([("x-other", b"s1")], None),
        ([("x-session", b"\xff")], "\ufffd"),
    ],
)
def test_a_header_gives_its_trimmed_value(
    headers: list[tuple[str, bytes]], expected: str | None
) -> None:
    assert session_id(headers, header_name="X-Session") == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("cookie", b"a=1; sid=s1; b=2")], "s1"),
        ([("cookie", b"a=1"), ("cookie", b"sid=s1"), ("cookie", b"sid=s2")], "s1"),
        ([("cookie", b'sid="s1"')], "s1"),
        ([("cookie", b"sid=s=1")], "s=1"),
        ([("cookie", b"SID=s1; xsid=s2; sid")], None),
        ([("cookie", b"sid= ;")], None),
        ([("x-cookie", b"sid=s1")], None),
        ([], None),
    ],
)
def test_a_cookie_is_found_among_others(
    headers: list[tuple[str, bytes]], expected: str | None
) -> None:
    assert session_id(headers, cookie_name="sid") == expected


@pytest.mark.parametrize(
    "parameters", [{}, {"header_name": "a", "cookie_name": "b"}, {"header_name": " "}]
)
def test_exactly_one_place_is_configured(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="exactly one of headerName and cookieName"):
        session_id([], **parameters)
