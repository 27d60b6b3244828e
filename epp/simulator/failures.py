"""Ways in which a simulated server can be broken, also while it runs."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import msgspec

from epp.framework.errors import ConfigError


class Failures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is broken. Without arguments, nothing is."""

    status: int | None = None
    """Inference requests are answered with this HTTP status."""
    stall: bool = False
    """Inference requests are read and never answered."""
    cut_stream_after: int | None = None
    """Streamed answers end in a closed connection after this many events."""
    slow_metrics_seconds: float = 0.0
    """`/metrics` answers this much later."""
    rate: float = 100.0
    """Per cent of the inference requests that `status`, `stall` and `cut_stream_after` hit."""

    def __post_init__(self) -> None:
        if self.status is not None and not 400 <= self.status <= 599:
            raise ConfigError(f"status: {self.status} is not allowed; allowed is 400 to 599")
        if self.cut_stream_after is not None and self.cut_stream_after < 0:
            raise ConfigError(
                f"cut_stream_after: {self.cut_stream_after} is not allowed; allowed is 0 or more"
            )
        if not 0 <= self.slow_metrics_seconds < math.inf:
            raise ConfigError(
                f"slow_metrics_seconds: {self.slow_metrics_seconds} is not allowed;"
                " allowed is 0 or more"
            )
        if not 0 <= self.rate <= 100:
            raise ConfigError(f"rate: {self.rate} is not allowed; allowed is 0 to 100 per cent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What happens to one inference request."""

    status: int | None = None
    stall: bool = False
    cut_stream_after: int | None = None


class FailureSwitches:
    """The failures in force, and the dice that choose whom they hit."""

    def __init__(self, failures: Failures, seed: int) -> None:
        self.current = failures
        self._dice = random.Random(f"failures {seed}")

    def next_fate(self) -> Fate:
        """Decide about one more inference request."""
        now = self.current
        if self._dice.random() * 100 >= now.rate:
            return Fate()
        return Fate(status=now.status, stall=now.stall, cut_stream_after=now.cut_stream_after)
