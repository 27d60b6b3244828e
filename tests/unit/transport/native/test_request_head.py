from __future__ import annotations

import pytest

from epp.transport.native.request_head import read_request_head, trailers_fault

Fields = list[tuple[bytes, bytes]]

GOOD: Fields = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a/b"),
    (b"content-type", b"application/grpc"),
]


def test_a_request_says_where_it_goes() -> None:
    head = read_request_head(GOOD)
    assert (head.path, head.malformed, head.refusal) == (b"/a/b", "", 0)
    assert (head.timeout, head.content_length, head.is_identity) == (None, -1, True)


@pytest.mark.parametrize(
    "fields",
    [
        GOOD[1:],
        GOOD[:1] + GOOD[2:],
        GOOD[:2] + GOOD[3:],
        [*GOOD[:2], (b":path", b""), GOOD[3]],
        [GOOD[0], *GOOD],
        [*GOOD, (b":authority", b"late")],
        [(b":status", b"200"), *GOOD],
        [*GOOD, (b"Upper", b"x")],
        [*GOOD, (b"", b"x")],
        [*GOOD, (b"sp ace", b"x")],
        [*GOOD, (b"x", b"a\r\nb")],
        [*GOOD, (b"x", b"a\0")],
        [*GOOD, (b"x", b" a")],
        [*GOOD, (b"x", b"a\t")],
        [*GOOD, (b"connection", b"close")],
        [*GOOD, (b"transfer-encoding", b"chunked")],
        [*GOOD, (b"te", b"gzip")],
        [*GOOD, (b"content-length", b"-1")],
        [*GOOD, (b"content-length", b"9" * 40)],
    ],
    ids=lambda fields: b" ".join(map(b"=".join, fields[-2:])).decode()[:60],
)
def test_what_rfc_9113_forbids_is_malformed(fields: Fields) -> None:
    assert read_request_head(fields).malformed


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"1H", 3600),
        (b"2M", 120),
        (b"3S", 3),
        (b"4m", 0.004),
        (b"5u", 5e-6),
        (b"6n", 6e-9),
        (b"0S", 0),
        (b"99999999H", None),
    ],
)
def test_timeouts_are_read_and_the_longest_are_none(value: bytes, seconds: float | None) -> None:
    head = read_request_head([*GOOD, (b"grpc-timeout", value)])
    assert head.timeout == (None if seconds is None else pytest.approx(seconds))
    assert not head.bad_timeout


@pytest.mark.parametrize("value", [b"", b"1", b"S", b"1s", b"-1S", b"123456789S", b"1.5S"])
def test_other_timeouts_are_bad(value: bytes) -> None:
    assert read_request_head([*GOOD, (b"grpc-timeout", value)]).bad_timeout


@pytest.mark.parametrize(
    ("trailers", "is_fine"),
    [([(b"x", b"1")], True), ([(b":path", b"/")], False), ([(b"X", b"1")], False)],
)
def test_trailers_are_checked(trailers: Fields, is_fine: bool) -> None:
    assert (trailers_fault(trailers) == "") is is_fine
