"""What is remembered of endpoints that are gone."""

from __future__ import annotations

from epp.framework.endpoint import EndpointId
from epp.plugins.producers.removed_endpoints import RemovedEndpoints


def test_an_endpoint_that_comes_back_is_not_removed() -> None:
    removed = RemovedEndpoints()
    removed.add(EndpointId("uid", 8000))
    assert EndpointId("uid", 8000) in removed

    removed.discard(EndpointId("uid", 8000))

    assert EndpointId("uid", 8000) not in removed


def test_only_the_last_removals_are_remembered() -> None:
    removed = RemovedEndpoints()

    for number in range(5000):
        removed.add(EndpointId(f"uid-{number}", 8000))

    assert EndpointId("uid-0", 8000) not in removed
    assert EndpointId("uid-4999", 8000) in removed
    assert sum(EndpointId(f"uid-{number}", 8000) in removed for number in range(5000)) == 4096
