"""Which LoRA adapters run and wait, as vLLM shows it: one series for each combination seen."""

from __future__ import annotations

from collections.abc import Iterable

_SERIES_KEPT = 8


class AdapterHistory:
    """Combinations of running and waiting adapters with the time they came up; newest last."""

    def __init__(self) -> None:
        self.series: dict[tuple[str, str], float] = {}

    def record(self, running: Iterable[str], waiting: Iterable[str], unix_time: float) -> None:
        """Note the combination of this moment."""
        key = (",".join(sorted(set(running))), ",".join(sorted(set(waiting))))
        newest = next(reversed(self.series), None)
        if key == newest:
            return
        if newest is not None:  # readers take the largest value, so equal times would mislead them
            unix_time = max(unix_time, self.series[newest] + 1e-6)
        self.series.pop(key, None)
        self.series[key] = unix_time
        if len(self.series) > _SERIES_KEPT:
            del self.series[next(iter(self.series))]
