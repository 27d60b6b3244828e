from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_logging(own_logging: None) -> None:
    """Every command configures logging."""
