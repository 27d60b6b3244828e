"""Which commit this build is of; an image knows, a checkout does not."""

from __future__ import annotations

from collections.abc import Mapping

REVISION_VARIABLE = "EPP_REVISION"
"""The Dockerfile sets it, from its build argument REVISION."""


def revision_in(environment: Mapping[str, str]) -> str:
    """The commit; empty where nobody said."""
    return environment.get(REVISION_VARIABLE, "")
