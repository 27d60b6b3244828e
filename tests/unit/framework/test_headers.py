from __future__ import annotations

from typing import Any

import pytest

from epp.framework.headers import Headers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-a", "b\r\nx-c: d"),
        ("x-a", b"b\0"),
        ("x-a", 5),
        ("x-a", None),
        ("x a", "b"),
        ("x-a\n", "b"),
        ("", "b"),
        ("é", "b"),
    ],
)
def test_what_no_gateway_accepts_is_refused_where_it_is_set(name: str, value: Any) -> None:
    headers = Headers([("x-a", b"before")])

    with pytest.raises(ValueError, match="header"):
        headers.set(name, value)

    assert list(headers) == [("x-a", b"before")]
    assert headers.changes == {}


@pytest.mark.parametrize("name", [5, None, b"x-a", "x a", "x-a\n", "", "\ud800"])
def test_what_can_be_no_name_is_refused_where_it_is_removed(name: Any) -> None:
    headers = Headers([("x-a", b"before")])

    with pytest.raises(ValueError, match="header"):
        headers.remove(name)

    assert headers.changes == {}


@pytest.mark.parametrize("value", ["", "é", b"\xff\t "])
def test_other_values_are_sent_as_they_are(value: str | bytes) -> None:
    headers = Headers()

    headers.set(":path", value)

    assert headers.changes == {":path": value.encode() if isinstance(value, str) else value}
