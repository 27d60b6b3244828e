"""What tracing adds to the CPU time of a request, its sending included: off, and by ratio.

`python -m tests.benchmarks.tracing`: the state machine with the default configuration and ten
endpoints, no transport; spans go to a collector in a process of its own.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from epp import __version__
from epp.app.request_path import RequestPathSettings, build_request_path
from epp.datastore.datastore import Datastore
from epp.gateway.service import ExternalProcessor
from epp.observability.metrics import Metrics
from epp.request_control.tracing import RequestTracer
from epp.tracing.export import Export
from epp.tracing.settings import Exporter, TracingSettings
from epp.tracing.tracer import Tracer
from tests.benchmarks.state_machine import whole_request
from tests.benchmarks.traffic import FULL_DUPLEX, traffic
from tests.fakes.collector import grpc_collector
from tests.fakes.pickers.picker import Configured, pods, pool

REQUESTS = 2000
WARM_UP = 200
ENDPOINTS = [f"10.0.0.{number}:8000" for number in range(1, 11)]
DEFAULT_CONFIGURATION = Path("config/examples/default.yaml")
VARIANTS = {"off": None, "ratio 0": 0.0, "ratio 0.1": 0.1, "ratio 1": 1.0}


def processor(tracer: RequestTracer | None) -> ExternalProcessor:
    """The request path with the default configuration."""
    datastore, metrics = Datastore(), Metrics(stream_metrics=True)
    configured = Configured((), metrics, time.monotonic)
    path = build_request_path(
        datastore,
        metrics,
        RequestPathSettings(),
        plan=configured.assemble(DEFAULT_CONFIGURATION.read_text()).plan,
        rng=random.Random(1),
        tracer=tracer,
    )
    with datastore.batch():
        datastore.set_pool(pool())
        datastore.set_pods(pods(ENDPOINTS))
        datastore.mark_synced()
    return path.processor


def microseconds(ratio: float | None, collector: str) -> float:
    """CPU time of a request in this process, all of its threads together."""
    export = None if ratio is None else exporting_to(collector)
    tracer = None if export is None or ratio is None else Tracer(export, ratio)
    run = whole_request(processor(tracer), traffic(1024, 5, FULL_DUPLEX))
    for _ in range(WARM_UP):
        run()
    gc.collect()
    gc.freeze()
    started = time.process_time()
    for index in range(REQUESTS):
        run()
        if index % 50 == 0:
            time.sleep(0.01)  # as spread out as requests are, so that no span is lost
    if export is not None:
        export.close()
    return (time.process_time() - started) / REQUESTS * 1e6


def exporting_to(collector: str) -> Export:
    """The sink of a process, and its thread."""
    settings = TracingSettings(exporter=Exporter.OTLP, endpoint=collector)
    return Export(settings, __version__)


def measure(rounds: int) -> dict[str, list[float]]:
    """Every variant in a process of its own, again and again."""
    samples: dict[str, list[float]] = {name: [] for name in VARIANTS}
    with grpc_collector() as collector:
        for _ in range(rounds):
            for name in VARIANTS:
                command = [sys.executable, "-m", "tests.benchmarks.tracing", "--variant", name]
                told = subprocess.run(
                    [*command, "--collector", collector.url],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                samples[name].append(float(told.stdout.split()[-1]))
            collector.requests.clear()
    return samples


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="default: 7")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--collector", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.variant is not None:
        print(microseconds(VARIANTS[arguments.variant], arguments.collector))
        return
    samples = measure(arguments.rounds)
    print(f"{os.cpu_count()} cores; {arguments.rounds} rounds.\n")
    print("| tracing | CPU us a request | ratio to off |\n|---|---|---|")
    for name, values in samples.items():
        # Of the fastest rounds: others on the machine only ever make it slower.
        print(f"| {name} | {min(values):.0f} | {min(values) / min(samples['off']):.2f} |")


if __name__ == "__main__":
    main()
