"""What the clients know of their streams: the account that the picker's series must agree with."""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MOST_FAILURES = 20

DISCONNECT = "client-disconnect"
NATURAL = "natural"
ERROR = "error"


@dataclass(slots=True)
class Period:
    """One minute of traffic."""

    picks: list[float] = field(default_factory=list)
    """Seconds from the last byte of a request to its pick."""
    rejected: int = 0
    disconnected: int = 0
    finished: int = 0

    def pick_milliseconds(self, percent: int) -> float:
        """A percentile of the pick's latency."""
        if len(self.picks) < 2:
            return 0.0
        return statistics.quantiles(self.picks, n=100, method="inclusive")[percent - 1] * 1e3


class Ledger:
    """Counts how streams end, as their clients meant it."""

    def __init__(self) -> None:
        self.terminations: Counter[str] = Counter()
        """Requests that were given an endpoint, by what ended them."""
        self.unclear = 0
        """Requests whose client left while the pick was on its way: nobody but the picker knows
        whether they were given an endpoint."""
        self.without_body = 0
        """Of those with an endpoint: requests without a body."""
        self.rejections: Counter[tuple[str, str]] = Counter()
        """Answers with an error, by status and details."""
        self.ways: Counter[str] = Counter()
        """Finished streams, or small groups of them, by what they were about."""
        self.failures: list[str] = []
        """What clients did not expect."""
        self.periods: defaultdict[int, Period] = defaultdict(Period)
        self._started = time.monotonic()

    @property
    def period(self) -> Period:
        """The present minute."""
        return self.periods[self.minute]

    @property
    def minute(self) -> int:
        """Its number."""
        return int((time.monotonic() - self._started) / 60)

    @property
    def is_hopeless(self) -> bool:
        """Whether so much went wrong that there is no point in going on."""
        return len(self.failures) >= MOST_FAILURES

    def picked(self, seconds: float) -> None:
        """A request got its endpoint."""
        self.period.picks.append(seconds)

    def ended(self, cause: str) -> None:
        """A request with an endpoint ended in this way."""
        self.terminations[cause] += 1
        self.period.disconnected += cause == DISCONNECT

    def rejected(self, status: int, details: str) -> None:
        """A request was answered with an error of the picker's own."""
        self.rejections[str(status), details] += 1
        self.period.rejected += 1

    def finished(self, way: str) -> None:
        """A client is done with what it had in mind."""
        self.ways[way] += 1
        self.period.finished += 1

    def failed(self, way: str, error: BaseException) -> None:
        """A client met what it did not expect."""
        if not self.is_hopeless:
            self.failures.append(f"{way}: {error!r}")

    def summary(self) -> str:
        """All counts, and how the pick's latency in the last minutes was to that in the first."""
        third = max(len(self.periods) // 3, 1)
        minutes = sorted(self.periods)
        early, late = (
            _together(self.periods, some) for some in (minutes[:third], minutes[-third:])
        )
        ratio = late.pick_milliseconds(99) / (early.pick_milliseconds(99) or 1)
        return "\n".join(
            [
                f"p99 of the first {third} minutes: {early.pick_milliseconds(99):.1f} ms,"
                f" of the last: {late.pick_milliseconds(99):.1f} ms, ratio {ratio:.2f}",
                f"ways: {dict(self.ways.most_common())}",
                f"ended: {dict(self.terminations)}, unclear {self.unclear}",
                f"rejected: {dict(self.rejections)}",
                f"failures: {self.failures}",
            ]
        )


def _together(periods: Mapping[int, Period], minutes: Sequence[int]) -> Period:
    return Period([seconds for minute in minutes for seconds in periods[minute].picks])
