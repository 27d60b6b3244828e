from __future__ import annotations

from typing import Any

import pytest

from epp.datastore.pods import (
    ACTIVE_PORTS,
    LEGACY_ACTIVE_PORTS,
    Expansion,
    expand_endpoints,
)
from epp.framework.endpoint import EndpointId, EndpointState
from tests.fakes.pool import pod_of, pool_of


def expanded(*ports: int, **pod: Any) -> Expansion:
    return expand_endpoints(pod_of(**pod), pool_of(*ports), lambda _: EndpointState())


def addresses(expansion: Expansion) -> list[str]:
    return [endpoint.address for endpoint in expansion.endpoints]


def test_a_pod_has_an_endpoint_for_each_target_port() -> None:
    state = EndpointState()
    pod = pod_of("a", "10.0.0.1", labels={"app": "x"})

    first, second = expand_endpoints(pod, pool_of(8000, 8001), lambda _: state).endpoints

    assert first.id == EndpointId("uid-a", 8000)
    assert (first.address, first.ip, first.port) == ("10.0.0.1:8000", "10.0.0.1", 8000)
    assert (first.name, first.pod_name, first.rank) == ("a-rank-0", "a", 0)
    assert (first.namespace, first.labels, first.state) == ("default", {"app": "x"}, state)
    assert (second.id.port, second.name, second.rank) == (8001, "a-rank-1", 1)


def test_a_pod_with_a_fixed_port_is_one_endpoint_of_its_own_name() -> None:
    (endpoint,) = expanded(8000, 8001, name="a", fixed_port=9000).endpoints

    assert (endpoint.address, endpoint.name, endpoint.rank) == ("10.0.0.1:9000", "a", 0)


@pytest.mark.parametrize(
    ("ips", "address"),
    [
        (("10.0.0.1", "fd00::1"), "10.0.0.1:8000"),
        (("FD00:0::1", "10.0.0.1"), "[fd00::1]:8000"),
        (("", "10.0.0.1"), "10.0.0.1:8000"),
        (("::", "10.0.0.1"), "10.0.0.1:8000"),
    ],
)
def test_the_first_usable_ip_counts(ips: tuple[str, ...], address: str) -> None:
    assert addresses(expanded(8000, ips=ips)) == [address]


@pytest.mark.parametrize(
    ("annotations", "ranks"),
    [
        ({}, [0, 1, 2]),
        ({ACTIVE_PORTS: "8000,8002"}, [0, 2]),
        ({ACTIVE_PORTS: " 8002 , 8001, 8001"}, [1, 2]),
        ({ACTIVE_PORTS: "8001,9999,x"}, [1]),
        pytest.param({ACTIVE_PORTS: "8002, 9999"}, [2], id="D12"),
        pytest.param({ACTIVE_PORTS: "abc"}, [], id="D13"),
        ({ACTIVE_PORTS: "8001x,08002"}, []),
        ({ACTIVE_PORTS: ""}, []),
        ({LEGACY_ACTIVE_PORTS: "8001"}, [1]),
        ({ACTIVE_PORTS: "8000", LEGACY_ACTIVE_PORTS: "8001"}, [0]),
        ({ACTIVE_PORTS: "", LEGACY_ACTIVE_PORTS: "8001"}, []),
    ],
)
def test_the_active_ports_annotation_narrows_a_pod(
    annotations: dict[str, str], ranks: list[int]
) -> None:
    expansion = expanded(8000, 8001, 8002, annotations=annotations)

    assert [endpoint.rank for endpoint in expansion.endpoints] == ranks
    assert addresses(expansion) == [f"10.0.0.1:{8000 + rank}" for rank in ranks]


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ({"ready": False}, "not ready"),
        ({"terminating": True}, "terminating"),
        ({"ready": False, "terminating": True}, "terminating"),
        ({"ips": ()}, "no usable IP address"),
        ({"ips": ("",)}, "no usable IP address"),
        (
            {"annotations": {ACTIVE_PORTS: "9"}},
            "annotation active-ports '9' names none of the target ports 8000",
        ),
    ],
)
def test_a_pod_without_endpoints_has_a_reason(pod: dict[str, Any], reason: str) -> None:
    assert expanded(8000, **pod) == Expansion(reason=reason)


def test_a_pool_without_target_ports_has_only_fixed_ports() -> None:
    assert expanded() == Expansion(reason="the pool has no target ports")
    assert addresses(expanded(fixed_port=1)) == ["10.0.0.1:1"]
