"""Endpoints a test asks for by address (protocol §3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epp.framework.plugin import Stability
from epp.framework.scheduling import Filter
from epp.support.addresses import canonical_ip, join_host_port

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest

SELECTION_HEADER = "test-epp-endpoint-selection"
MAX_NAMED = 256
"""Endpoints of one header: each is looked for among all."""


class HeaderBasedTestingFilter(Filter):
    """Keeps the endpoints that header test-epp-endpoint-selection names; for tests only."""

    type = "header-based-testing-filter"
    stability = Stability.BETA
    ignores_parameters = True

    def filter(self, request: InferenceRequest, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The named endpoints, in the order of the header; none without the header."""
        named = (request.headers.get(SELECTION_HEADER) or "").split(",")[:MAX_NAMED]
        found: dict[Endpoint, None] = {}
        for ip, address in map(_parsed, named):
            for endpoint in endpoints:
                if endpoint.address == address or endpoint.ip == ip:
                    found[endpoint] = None
        return list(found)


def _parsed(text: str) -> tuple[str | None, str | None]:
    """An entry as an IP (any of its ports is meant) or as an address; neither if it is wrong."""
    text = text.strip()
    ip = canonical_ip(text.removeprefix("[").removesuffix("]"))
    if ip is not None:
        return ip, None
    host, _, port = text.rpartition(":")
    ip = canonical_ip(host.removeprefix("[").removesuffix("]"))
    return None, None if ip is None else join_host_port(ip, port)
