"""What the gateway says of the served endpoint, shown to conformance tests (protocol §3.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epp.framework.plugin import Stability
from epp.framework.request_control import ResponseHeader

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest, InferenceResponse

NAMESPACE = "envoy.lb"
SERVED_KEY = "x-gateway-destination-endpoint-served"
RESULT_HEADER = "x-conformance-test-served-endpoint"


class DestinationEndpointServedVerifier(ResponseHeader):
    """Copies the served endpoint from the gateway's metadata to a header; for tests only."""

    type = "destination-endpoint-served-verifier"
    stability = Stability.BETA

    def response_header(
        self, request: InferenceRequest, response: InferenceResponse, endpoint: Endpoint | None
    ) -> None:
        """Set the header to the endpoint, or to what is missing."""
        response.headers.set(RESULT_HEADER, _verdict(response))


def _verdict(response: InferenceResponse) -> str:
    namespace = response.metadata.get(NAMESPACE)
    if namespace is None:
        return "fail: missing envoy lb metadata"
    served = namespace.get(SERVED_KEY)
    return served if isinstance(served, str) else _NO_ENDPOINT


_NO_ENDPOINT = "fail: missing destination endpoint served metadata"
