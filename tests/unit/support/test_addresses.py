from __future__ import annotations

import pytest

from epp.support.addresses import canonical_ip, join_host_port, routable_ip, split_host_port


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("FD00:0:0::1", "fd00::1"),
        ("fd00:0000:0000:0000:0000:0000:0000:0001", "fd00::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", None),
        ("[fd00::1]", None),
        ("010.0.0.1", None),
        ("10.0.0.1:8000", None),
        ("localhost", None),
        ("", None),
    ],
)
def test_an_ip_has_one_spelling(text: str, expected: str | None) -> None:
    assert canonical_ip(text) == expected


@pytest.mark.parametrize("text", ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "host"])
def test_where_nothing_can_listen_is_not_routable(text: str) -> None:
    assert routable_ip(text) is None


def test_ipv6_stands_in_brackets_before_a_port() -> None:
    assert join_host_port("fd00::1", 8000) == "[fd00::1]:8000"
    assert join_host_port("10.0.0.1", 8000) == "10.0.0.1:8000"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9091", ("127.0.0.1", 9091)),
        ("[::1]:1", ("::1", 1)),
        ("epp.models.svc:65535", ("epp.models.svc", 65535)),
        ("epp.models.svc.:9002", ("epp.models.svc.", 9002)),
        ("my_host:9002", ("my_host", 9002)),
        (f"{'a' * 63}:1", ("a" * 63, 1)),
        (f"{'a' * 64}:1", None),
        (f"{'.'.join(['a' * 63] * 4)}.aaa:1", None),
        ("a..b:1", None),
        ("-a:1", None),
        ("[1.2.3.4]:1", None),
        ("[1.2]:1", None),
        ("::1:1", None),
        ("a:0", None),
        ("a:65536", None),
        ("a:\u0661", None),
        ("a b:1", None),
        ("a", None),
        ("", None),
    ],
)
def test_whom_to_connect_to_is_a_name_or_an_address_and_a_port(
    text: str, expected: tuple[str, int] | None
) -> None:
    assert split_host_port(text) == expected
