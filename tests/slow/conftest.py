from __future__ import annotations

from pathlib import Path

import pytest

from tests.kube.caller import Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import ServiceAccount, install


@pytest.fixture
def account(
    admin: Caller, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> ServiceAccount:
    """The picker's service account, with the rights config/base gives it."""
    return install("base", admin, control_plane, namespace, tmp_path)
