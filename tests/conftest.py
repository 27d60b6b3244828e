from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.logs import logging_as_it_was
from tests.kube.caller import Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import POOL_DEFINITION
from tests.kube.objects import namespace_of

# No test asserts a time, nor how fast this machine makes up its inputs.
settings.register_profile(
    "without times", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("brief", settings.get_profile("without times"), max_examples=10)
settings.load_profile("without times")

_numbers = itertools.count()


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Logging that the test may configure, as every command does."""
    with logging_as_it_was():
        yield


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One real API server that knows InferencePools, for tests that leave it as it was."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as running:
        with Caller(running) as admin:
            admin.install_definition(POOL_DEFINITION)
        yield running


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Iterator[Caller]:
    """The administrator of the real API server."""
    with Caller(control_plane) as caller:
        yield caller


@pytest.fixture
def namespace(admin: Caller) -> str:
    """A namespace of the test's own."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    admin.create(namespace_of(name))
    return name
