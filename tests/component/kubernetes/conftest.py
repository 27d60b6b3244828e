from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from epp.kubernetes.client import KubeClient
from tests.fakes.kubernetes.api import FakeKubeApi


@pytest.fixture
async def client(kube: FakeKubeApi) -> AsyncIterator[KubeClient]:
    """A client of the API server."""
    async with kube.client() as client:
        yield client
