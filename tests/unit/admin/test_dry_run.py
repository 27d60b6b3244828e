from __future__ import annotations

import contextlib
import json
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.admin.dry_run import DryRunError, read_dry_run


def read(**fields: object) -> bytes | None:
    return read_dry_run(json.dumps(fields).encode(), 1.0).body


def test_a_body_stays_as_it_was_written() -> None:
    incoming = read_dry_run(b'{"path": "/v1/x?a=b", "body": {"a" : [1,  2]}}', 5.0)

    assert incoming.body == b'{"a" : [1,  2]}'
    assert incoming.headers.get(":path") == "/v1/x?a=b"
    assert incoming.received_at == 5.0
    assert not incoming.reserve
    assert not incoming.bodiless


def test_a_body_that_is_no_json_comes_as_base64() -> None:
    assert read(bodyBase64=b64encode(b"\x1f\x8b").decode()) == b"\x1f\x8b"


def test_without_a_body_it_is_a_request_without_one() -> None:
    incoming = read_dry_run(b"{}", 1.0)

    assert incoming.bodiless
    assert incoming.body is None
    assert incoming.subset is None


def test_header_names_are_in_lower_case_and_the_subset_is_as_given() -> None:
    incoming = read_dry_run(b'{"headers": {"X-A": "B c"}, "subset": ["10.0.0.1"]}', 1.0)

    assert incoming.headers.get("x-a") == "B c"
    assert incoming.subset == ["10.0.0.1"]


MANY_HEADERS = json.dumps({"headers": {f"a{number}": "" for number in range(129)}}).encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the body can't be read"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"prompt": "a"}', "unknown field `prompt`"),
        (b'{"path": "v1"}', "path: 'v1' is no path; allowed: / and up to"),
        (b'{"path": "/v1\\n"}', r"path: '/v1\n' is no path; allowed"),
        (b'{"path": "/' + b"a" * 8192 + b'"}', "aaa...' is no path; allowed: / and up to 8191"),
        (b'{"headers": {"a b": "c"}}', "headers: 'a b' is no name of a header; allowed"),
        (b'{"headers": {":path": "c"}}', "headers: ':path' is no name of a header; allowed"),
        (b'{"headers": {"": "c"}}', "headers: '' is no name of a header; allowed"),
        (b'{"headers": {"a": "b\\r\\nc: d"}}', "headers: the value of 'a' is none; allowed: one"),
        (MANY_HEADERS, "headers: 129 of them; allowed: 128"),
        (b'{"headers": 1}', "headers can't be read: Expected `object`"),
        (b'{"headers": {"a": 1}}', "Expected `str`, got `int`"),
        (b'{"subset": "10.0.0.1"}', "subset can't be read: Expected `array | null`"),
        (b'{"subset": [' + b" " * 262_133 + b"1]}", "subset can't be read: Expected `str`"),
        (b'{"subset": [' + b" " * 262_144 + b"1]}", "bytes of JSON; allowed: 262144"),
        (b'{"headers": {' + b'"a":"",' * 40_000 + b'"a":""}}', "headers: 280008 bytes of JSON"),
        (b'{"bodyBase64": "?"}', "bodyBase64: is no base64"),
        (b'{"bodyBase64": "", "body": 1}', "body and bodyBase64 exclude each other"),
        (b'{"body": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "the body can't be read"),
    ],
)
def test_what_is_no_request_is_refused_by_the_name_of_the_field(content: bytes, told: str) -> None:
    with pytest.raises(DryRunError) as caught:
        read_dry_run(content, 1.0)

    assert told in str(caught.value)


def test_what_is_quoted_of_a_request_is_short_and_plain() -> None:
    with pytest.raises(DryRunError) as caught:
        read_dry_run(b'{"\xe2\x80\xae' + b"x" * 1_000_000 + b'": 1}', 1.0)

    assert len(str(caught.value)) < 600
    assert "unknown field `\\u202exxx" in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FIELDS = ["path", "headers", "body", "bodyBase64", "subset", "other"]
DOCUMENTS = st.dictionaries(st.sampled_from(FIELDS), JSON).map(
    lambda each: json.dumps(each).encode()
)


@given(content=st.binary(max_size=64) | DOCUMENTS)
def test_whatever_is_sent_is_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(DryRunError):
        read_dry_run(content, 1.0)
