from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.kubernetes.api import FakeKubeApi


@pytest.fixture
async def kube() -> AsyncIterator[FakeKubeApi]:
    """An API server without any objects."""
    api = FakeKubeApi()
    await api.start()
    yield api
    await api.kill()
