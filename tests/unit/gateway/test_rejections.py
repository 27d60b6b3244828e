from __future__ import annotations

import pytest

from epp.framework.headers import Headers
from epp.gateway.rejections import declares_more


@pytest.mark.parametrize(
    ("declared", "is_more"),
    [
        (None, False),
        ("100", False),
        ("101", True),
        ("0101", True),
        ("-101", False),
        ("1_01", False),
        ("\u0661\u0660\u0661", False),
        ("9" * 18, True),
        pytest.param("9" * 5000, False, id="longer than Python reads"),
    ],
)
def test_only_a_plain_number_declares_how_much_will_come(
    declared: str | None, is_more: bool
) -> None:
    headers = Headers()
    if declared is not None:
        headers = Headers([("content-length", declared.encode())])

    assert declares_more(headers, 100) is is_more
