from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from epp.kubernetes.client import KubeClient
from tests.helm.foreign import foreign_definitions
from tests.kube.caller import Caller
from tests.kube.following import Cluster
from tests.kube.harness import ControlPlane
from tests.kube.installation import OBJECTIVE_DEFINITION, ServiceAccount, install


@pytest.fixture(scope="session")
def definitions(control_plane: ControlPlane) -> None:
    """The API server knows all that its administrator may have installed."""
    with Caller(control_plane) as admin:
        groups = {group["name"] for group in admin.request("GET", "/apis")["groups"]}
        objectives = yaml.safe_load(OBJECTIVE_DEFINITION.read_text())
        for definition in (objectives, *foreign_definitions()):
            if definition["spec"]["group"] not in groups:
                admin.define(definition)


@pytest.fixture
def cluster(admin: Caller, namespace: str) -> Cluster:
    """A namespace and whoever works in it."""
    return Cluster(admin, namespace)


@pytest.fixture
def account(
    admin: Caller, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> ServiceAccount:
    """The picker's service account, with the rights config/base gives it."""
    return install("base", admin, control_plane, namespace, tmp_path)


@pytest.fixture
async def client(account: ServiceAccount) -> AsyncIterator[KubeClient]:
    """The picker's connection, as its pod would have it."""
    connected = await account.connect()
    yield connected
    await connected.close()


@pytest.fixture
def own_control_plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """An API server of the test's own, which knows nothing of InferencePools."""
    folder = tmp_path / "control-plane"
    folder.mkdir()
    with ControlPlane(folder) as running:
        yield running
