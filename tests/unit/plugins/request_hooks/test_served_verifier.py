"""The served endpoint as the gateway reports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from epp.framework.headers import Headers
from epp.framework.request import InferenceResponse
from epp.plugins.request_hooks.served_verifier import DestinationEndpointServedVerifier
from epp.testing import built, endpoint_of, request_of

MISSING_KEY = "fail: missing destination endpoint served metadata"
KEY = "x-gateway-destination-endpoint-served"


@pytest.mark.parametrize(
    ("metadata", "verdict"),
    [
        pytest.param({"envoy.lb": {KEY: "10.0.0.2:8000"}}, "10.0.0.2:8000", id="V32"),
        pytest.param({}, "fail: missing envoy lb metadata", id="V32 without the namespace"),
        pytest.param({"other": {KEY: "x"}}, "fail: missing envoy lb metadata", id="other"),
        pytest.param({"envoy.lb": {}}, MISSING_KEY, id="no key"),
        pytest.param({"envoy.lb": {KEY: 7.0}}, MISSING_KEY, id="no string"),
        pytest.param({"envoy.lb": {KEY: None}}, MISSING_KEY, id="null"),
    ],
)
def test_the_header_tells_who_served_or_what_is_missing(
    metadata: Mapping[str, Any], verdict: str
) -> None:
    response = InferenceResponse(headers=Headers(), status=200, streaming=False, metadata=metadata)

    built(DestinationEndpointServedVerifier).response_header(
        request_of(), response, endpoint_of("e1")
    )

    assert response.headers.changes == {"x-conformance-test-served-endpoint": verdict.encode()}
