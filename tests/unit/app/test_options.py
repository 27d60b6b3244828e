from __future__ import annotations

from pathlib import Path

import pytest

from epp.app.flags import declarations_of
from epp.app.options import LogLevel, ServeOptions

POOL_FILE = Path("pool.yaml")


@pytest.mark.parametrize(
    ("verbosity", "zap_log_level", "level"),
    [
        (-1, None, "info"),
        (2, None, "info"),
        (3, None, "info"),
        (4, None, "debug"),
        (5, None, "trace"),
        (9, None, "trace"),
        (5, "error", "error"),
        (5, "info", "info"),
        (2, "debug", "debug"),
        (2, "panic", "critical"),
        (2, "5", "trace"),
        (5, "1", "info"),
    ],
)
def test_the_zap_level_wins_over_the_verbosity(
    verbosity: int, zap_log_level: str | None, level: LogLevel
) -> None:
    assert ServeOptions(verbosity=verbosity, zap_log_level=zap_log_level).log_level == level


def test_the_defaults_do_not_contradict_each_other() -> None:
    assert list(ServeOptions(pool_file=POOL_FILE).contradictions()) == []


def test_two_servers_on_one_port_are_a_contradiction_naming_both() -> None:
    options = ServeOptions(pool_file=POOL_FILE, grpc_port=9090)

    assert list(options.contradictions()) == [
        "--grpc-port and --metrics-port are both 9090; each needs a port of its own"
    ]


def test_any_number_of_servers_may_ask_for_any_free_port() -> None:
    options = ServeOptions(
        pool_file=POOL_FILE, grpc_port=0, grpc_health_port=0, metrics_port=0, admin_port=0
    )

    assert list(options.contradictions()) == []


def test_a_body_larger_than_all_buffers_is_a_contradiction_naming_both() -> None:
    options = ServeOptions(
        pool_file=POOL_FILE, max_request_body_bytes=2**20, max_buffered_bytes=2**10
    )

    (contradiction,) = options.contradictions()

    assert "--max-request-body-bytes 1MiB" in contradiction
    assert "--max-buffered-bytes 1KiB" in contradiction


def test_every_default_reads_back_from_its_text() -> None:
    for flag in declarations_of(ServeOptions):
        if flag.default is not None:
            assert flag.kind.read(flag.kind.write(flag.default)) == flag.default, flag.name
