"""`epp serve` that is looked at between two SIGUSR1: `sampled_serve FILE FLAGS...`.

At the second it writes FILE, for `tests.benchmarks.profile`, and says so.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from epp.cli.main import main
from tests.benchmarks.sampler import Sampler

WRITTEN = "samples written"


def serve(file: Path, flags: list[str]) -> int:
    """Serve until a signal ends it."""
    sampler = Sampler()

    def finish() -> None:
        sampler.stop()
        seen = sampler.samples
        file.write_text(json.dumps({"own": seen.own, "total": seen.total, "count": seen.count}))
        print(WRITTEN, flush=True)

    steps = iter([sampler.start, finish])
    signal.signal(signal.SIGUSR1, lambda *_: next(steps)())
    return main(["serve", *flags])


if __name__ == "__main__":
    sys.exit(serve(Path(sys.argv[1]), sys.argv[2:]))
