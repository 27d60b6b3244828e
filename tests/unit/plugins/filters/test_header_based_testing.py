"""Endpoints that conformance tests ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epp.plugins.filters.header_based_testing import HeaderBasedTestingFilter
from epp.testing import built, endpoint_of, request_of

E1 = endpoint_of("e1")
E2 = endpoint_of("e2")
E2_SECOND = endpoint_of("e2", address="10.0.0.2:8002")
SIX = replace(endpoint_of("e6"), ip="fd00::1", address="[fd00::1]:8000")
ALL = [E1, E2, E2_SECOND]


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("10.0.0.2", [E2, E2_SECOND]),
        ("10.0.0.2:8002", [E2_SECOND]),
        ("10.0.0.2:8002,10.0.0.1", [E2_SECOND, E1]),
        (" 10.0.0.2:8000 , 10.0.0.1:8000 ", [E2, E1]),
        ("10.0.0.1,10.0.0.1:8000", [E1]),
        ("10.9.9.9", []),
        ("10.0.0.1:9", []),
        ("", []),
        (",,", []),
        ("e1", []),
    ],
)
def test_the_named_endpoints_are_kept_in_the_order_of_the_header(
    header: str, kept: list[object]
) -> None:
    request = request_of(headers={"test-epp-endpoint-selection": header})

    assert built(HeaderBasedTestingFilter).filter(request, ALL) == kept


def test_without_the_header_nothing_is_kept() -> None:
    assert built(HeaderBasedTestingFilter).filter(request_of(), ALL) == []


@pytest.mark.parametrize("text", ["fd00::1", "[fd00::1]", "[fd00:0::1]:8000", "FD00::1"])
def test_ipv6_is_taken_with_and_without_brackets(text: str) -> None:
    request = request_of(headers={"test-epp-endpoint-selection": text})

    assert built(HeaderBasedTestingFilter).filter(request, [E1, SIX]) == [SIX]
