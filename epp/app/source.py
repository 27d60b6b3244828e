"""Where pool and endpoints come from, as the process runs it."""

from __future__ import annotations

from typing import Protocol


class Source(Protocol):
    """Keeps the datastore in step with a file or a cluster."""

    @property
    def problem(self) -> str | None:
        """What is wrong there now, for people; the last good state stays in force."""

    async def run(self) -> None:
        """Follow it for ever."""
