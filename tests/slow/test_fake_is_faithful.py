"""Tests that use the fake API server, once more with a real one in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from epp.kubernetes.client import KubeClient
from epp.kubernetes.lease_client import KubeLease
from tests.component.kubernetes import test_lease_client as lease_client
from tests.component.kubernetes import test_pool_source as pool_source
from tests.component.kubernetes import test_reflector as reflector
from tests.kube.caller import Caller, Refused
from tests.kube.harness import ControlPlane
from tests.kube.objects import namespace_of
from tests.kube.real_kube import RealKube

pytestmark = pytest.mark.slow

Scenario = Callable[..., Awaitable[None]]

NAMESPACES = ("models", "other")
COLLECTIONS = (
    "/api/v1/namespaces/{}/pods",
    "/apis/inference.networking.k8s.io/v1/namespaces/{}/inferencepools",
    "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
)
FOLLOWING = (
    reflector.test_a_cluster_without_pods_is_synced_as_well,
    reflector.test_the_api_server_selects,
    reflector.test_changes_are_told_in_order,
    reflector.test_a_pod_whose_labels_change_leaves_and_comes_back,
    reflector.test_what_is_of_no_interest_is_not_told,
    reflector.test_a_burst_leaves_room_for_others,
    pool_source.test_a_pool_and_its_ready_pods_become_endpoints,
    pool_source.test_pods_come_and_go,
    pool_source.test_a_pod_that_is_told_to_go_leaves_at_once_though_it_is_still_ready,
    pool_source.test_active_ports_narrow_a_pod,
    pool_source.test_pods_without_an_endpoint_are_explained,
    pool_source.test_a_label_that_would_change_the_query_is_refused,
    pool_source.test_the_status_that_gateways_write_is_of_no_interest,
)
LEASES = (
    lease_client.test_a_lease_is_created_where_there_is_none_and_read_back,
    lease_client.test_of_two_writers_that_read_the_same_version_one_is_refused,
    lease_client.test_of_two_that_create_one_is_refused,
)


def name_of(scenario: Scenario) -> str:
    return scenario.__name__.removeprefix("test_")


@pytest.fixture
async def kube(control_plane: ControlPlane, admin: Caller) -> RealKube:
    """The real API server without any objects in the namespaces these tests use."""
    for namespace in NAMESPACES:
        try:
            admin.create(namespace_of(namespace))
        except Refused:  # there is one already
            for collection in COLLECTIONS:
                admin.request("DELETE", collection.format(namespace), gracePeriodSeconds="0")
    return RealKube(control_plane, admin)


@pytest.fixture
async def client(kube: RealKube) -> AsyncIterator[KubeClient]:
    async with kube.client() as connected:
        yield connected


@pytest.mark.parametrize("scenario", FOLLOWING, ids=name_of)
async def test_what_holds_for_the_fake_holds_for_a_real_server(
    scenario: Scenario, kube: RealKube, client: KubeClient
) -> None:
    await scenario(kube, client)


@pytest.mark.parametrize("scenario", LEASES, ids=name_of)
async def test_what_holds_for_fake_leases_holds_for_real_ones(
    scenario: Scenario, client: KubeClient
) -> None:
    await scenario(KubeLease(client, namespace="models", name=lease_client.NAME))
