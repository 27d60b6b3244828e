"""Which agent a request comes from."""

from __future__ import annotations

import pytest

from epp.framework.data_types import AGENT_IDENTITY
from epp.plugins.request_hooks.agent_identity import AgentIdentity
from epp.testing import FakeContext, built, request_of

KEY = AGENT_IDENTITY.key("agent-identity")


def identity(headers: dict[str, str], *additional: str) -> object:
    context = FakeContext("agent-identity")
    made = built(AgentIdentity, context, additional_session_headers=list(additional))
    request = request_of(headers=headers)
    made.request_header(request)
    return request.attributes.get(KEY)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"session_id": "d", "session-id": "c"}, "c"),
        ({"session_id": "d"}, "d"),
        ({"session-id": "c", "x-session-affinity": "b"}, "b"),
        ({"x-session-affinity": "b", "x-claude-code-session-id": " a "}, "a"),
        ({"x-claude-code-session-id": " ", "session_id": "d"}, "d"),
        ({"x-claude-code-session-id": ""}, None),
        ({}, None),
    ],
)
def test_the_first_header_that_is_not_empty_is_the_identity(
    headers: dict[str, str], expected: str | None
) -> None:
    assert identity(headers) == expected


def test_additional_headers_come_first_in_their_order() -> None:
    headers = {"x-claude-code-session-id": "a", "x-mine": "m", "x-too": "t"}

    assert identity(headers, "", "X-Too", "x-mine") == "t"
