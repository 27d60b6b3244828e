from __future__ import annotations

import argparse

import pytest

from epp.cli.main import main
from epp.framework.errors import ConfigError
from epp.simulator.arguments import add_arguments, settings_from
from epp.simulator.failures import Failures
from epp.simulator.settings import Mode, SimulatorSettings


def _namespace(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def test_without_arguments_the_settings_are_the_defaults() -> None:
    assert settings_from(_namespace()) == SimulatorSettings()


def test_flags_end_up_in_the_settings() -> None:
    settings = settings_from(
        _namespace(
            "--port=0",
            "--served-model-name=llama",
            "--lora-modules",
            "sql",
            "sum=/adapters/sum",
            '{"name": "chat", "path": "/adapters/chat"}',
            "--mode=echo",
            "--max-num-seqs=2",
            "--prefill-time-per-token=150us",
            "--no-enable-prefix-caching",
            "--failure-status=503",
            "--failure-injection-rate=20",
            "--failure-slow-metrics=2s",
        )
    )

    assert settings == SimulatorSettings(
        port=0,
        served_model_names=("llama",),
        lora_modules=("sql", "sum", "chat"),
        mode=Mode.ECHO,
        max_num_seqs=2,
        prefill_time_per_token=0.00015,
        enable_prefix_caching=False,
        failures=Failures(status=503, rate=20, slow_metrics_seconds=2),
    )


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--port=70000", "port: 70000 is not allowed; allowed is 0 to 65535"),
        ("--max-num-seqs=0", "max_num_seqs: 0 is not allowed; allowed is 1 or more"),
        ("--time-factor-under-load=nan", "time_factor_under_load: nan is not allowed"),
        ("--failure-status=200", "status: 200 is not allowed; allowed is 400 to 599"),
        ("--failure-injection-rate=101", "rate: 101.0 is not allowed; allowed is 0 to 100"),
        ("--failure-cut-stream-after=-1", "cut_stream_after: -1 is not allowed"),
        ("--lora-modules=simulated-model", "['simulated-model'] given more than once"),
        ("--model=", "all need a name"),
        ("--host=", "host: '' is empty"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(argument: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from(_namespace(argument))

    assert message in str(caught.value)


@pytest.mark.parametrize("argument", ["--inter-token-latency=5", "--lora-modules={x"])
def test_a_value_that_can_not_be_read_ends_with_usage(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _namespace(argument)

    assert argument.partition("=")[2] in capsys.readouterr().err


def test_the_command_ends_with_2_when_settings_are_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulator", "--block-size=0"]) == 2
    assert "block_size: 0 is not allowed" in capsys.readouterr().err
