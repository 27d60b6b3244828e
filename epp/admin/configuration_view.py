"""The configuration in force as operators see it: `/configuration`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class ConfigurationView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What this process runs, and what it picks by."""

    version: str
    source: str
    """Where the configuration is from."""
    profiles: Sequence[str]
    """What is picked by, in a line for each scheduling profile."""
    document: str
    """YAML, everything filled in: as `epp config check` prints it."""
    problem: str | None
    """Why the configuration file as it is now is not in force."""
