"""`epp serve` that is looked at between two SIGUSR1: `sampled_serve FILE FLAGS...`.

Writes FILE, for `tests.benchmarks.profile`, when it has ended.
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from epp.cli.main import main
from tests.benchmarks.sampler import Sampler


def serve(file: Path, flags: list[str]) -> int:
    """Serve until a signal ends it."""
    sampler = Sampler()
    steps = iter([sampler.start, sampler.stop])
    signal.signal(signal.SIGUSR1, lambda *_: next(steps)())
    code = main(["serve", *flags])
    file.write_text(json.dumps(asdict(sampler.samples)))
    return code


if __name__ == "__main__":
    sys.exit(serve(Path(sys.argv[1]), sys.argv[2:]))
