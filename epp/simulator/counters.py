"""What an engine has done, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

TTFT_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip


@dataclass(slots=True)
class Counters:
    """What an engine has done since it was built."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})
    ttft_sum: float = 0.0
    ttft_counts: list[int] = field(default_factory=lambda: [0] * (len(TTFT_BUCKETS) + 1))
    """Observations by bucket, not cumulated; the last one is for what exceeds all bounds."""

    def observe_ttft(self, seconds: float) -> None:
        """Count a time to the first token."""
        bucket = next((index for index, bound in enumerate(TTFT_BUCKETS) if seconds <= bound), -1)
        self.ttft_counts[bucket] += 1
        self.ttft_sum += seconds
