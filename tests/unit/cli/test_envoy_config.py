from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import yaml

from epp.cli.envoy_config import settings_from
from epp.cli.envoy_flags import add_arguments
from epp.cli.main import main
from epp.datastore.inference_pool import AppProtocol
from epp.framework.errors import ConfigError
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import EnvoySettings, envoy_bootstrap
from epp.standalone.envoy_tls import PickerIdentity
from tests.fakes.pool_files import MANIFEST

FAIL_OPEN = MANIFEST.replace("FailClose", "FailOpen")
ENDPOINTS = """\
endpoints:
- {name: a, namespace: default, address: 10.0.0.1}
- {name: b, namespace: default, address: "fd00::1", port: "8001"}
"""


@pytest.fixture
def pool_file(tmp_path: Path) -> Path:
    path = tmp_path / "pool.yaml"
    path.write_text(FAIL_OPEN + ENDPOINTS)
    return path


def parsed(*arguments: str) -> tuple[EnvoySettings, list[str]]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return settings_from(parser.parse_args(arguments))


def test_without_flags_it_is_for_a_sidecar_with_the_defaults_of_serve() -> None:
    settings, warnings = parsed()

    assert warnings == []
    assert settings == EnvoySettings(
        listener=Address("0.0.0.0", 8080),
        admin=Address("127.0.0.1", 19000),
        pickers=(Address("127.0.0.1", 9002),),
        epp_tls=True,
        fail_open=False,
        access_log="/dev/stdout",
    )


def test_every_flag_reaches_the_bootstrap() -> None:
    settings, warnings = parsed(
        *("--failure-mode=FailOpen", "--app-protocol=kubernetes.io/h2c"),
        *("--endpoints=models.ns.svc:8000,models.ns.svc:8001", "--epp=epp-a:9002,[fd00::2]:9002"),
        *("--secure-serving=false", "--listen-address=::", "--port=1", "--envoy-admin-port=0"),
        *("--envoy-access-log=", "--response-bodies=false", "--idle-timeout=1m30s"),
        *("--pick-timeout=2500ms", "--max-request-body-bytes=1Mi"),
    )

    assert warnings == []
    assert settings == EnvoySettings(
        listener=Address("::", 1),
        admin=None,
        pickers=(Address("epp-a", 9002), Address("fd00::2", 9002)),
        epp_tls=False,
        fail_open=True,
        endpoints=(Address("models.ns.svc", 8000), Address("models.ns.svc", 8001)),
        app_protocol=AppProtocol.H2C,
        access_log=None,
        response_bodies=False,
        idle_timeout_seconds=90.0,
        pick_timeout_seconds=2.5,
        max_request_body_bytes=1 << 20,
    )


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--epp=epp.models.svc:9002"], "epp.models.svc"),
        (["--epp=epp.models.svc:9002,epp.models.svc:9003"], "epp.models.svc"),
        (["--epp=10.0.0.1:9002,10.0.0.2:9002", "--epp-server-name=epp"], "epp"),
        (["--epp=[fd00::1]:9002"], "fd00::1"),
    ],
    ids=["a service", "two ports", "two replicas", "an address"],
)
def test_a_ca_is_told_with_the_name_a_certificate_has_to_have(flags: list[str], name: str) -> None:
    settings, _ = parsed("--epp-ca-file=/etc/epp/ca.crt", *flags)

    assert settings.epp_identity == PickerIdentity(ca_file="/etc/epp/ca.crt", name=name)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--epp-server-name=epp"], "--epp-server-name takes --epp-ca-file"),
        (["--epp-ca-file=/a", "--secure-serving=false"], "--epp-ca-file takes TLS"),
        (["--epp-ca-file=/a", "--epp=a:1,b:1"], "takes --epp-server-name: --epp has 2 hosts"),
        (["--epp-ca-file=/a", "--epp-server-name=a:1"], "--epp-server-name: 'a:1': must be"),
        (["--epp-ca-file=/a", "--epp-server-name=a\nb"], "--epp-server-name: 'a.+b': must be"),
    ],
)
def test_what_can_not_be_verified_is_an_error_that_names_the_flag(
    flags: list[str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        parsed(*flags)


def test_mode_protocol_and_endpoints_are_those_of_the_pool(pool_file: Path) -> None:
    pool_file.write_text(
        pool_file.read_text().replace(
            "  selector:", "  appProtocol: kubernetes.io/h2c\n  selector:"
        )
    )

    settings, _ = parsed(f"--pool-file={pool_file}")

    assert settings.fail_open
    assert settings.app_protocol is AppProtocol.H2C
    assert settings.endpoints == (Address("10.0.0.1", 8000), Address("fd00::1", 8001))


def test_flags_win_over_the_pool(pool_file: Path) -> None:
    mode, _ = parsed(f"--pool-file={pool_file}", "--failure-mode=FailClose")
    hosts, _ = parsed(f"--pool-file={pool_file}", "--endpoints=models:8000")

    assert not mode.fail_open
    assert hosts.endpoints == (Address("models", 8000),)


def test_a_manifest_from_a_cluster_needs_the_name_of_a_service_in_fail_open(
    pool_file: Path,
) -> None:
    pool_file.write_text(FAIL_OPEN)

    with pytest.raises(ConfigError, match=r"FailOpen needs to know .* give --endpoints"):
        parsed(f"--pool-file={pool_file}")

    assert parsed(f"--pool-file={pool_file}", "--endpoints=models:8000")[0].fail_open


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--endpoints=a:1", "requests go where the EPP says"),
        ("--pick-timeout=1s", "--decision-timeout of epp serve ends a pick"),
        ("--max-request-body-bytes=1Mi", "that of epp serve limits bodies"),
    ],
)
def test_a_flag_of_fail_open_is_told_to_mean_nothing_in_fail_close(flag: str, reason: str) -> None:
    _, (warning,) = parsed(flag)

    name = flag.partition("=")[0]
    assert warning.startswith(f"{name} has no effect in FailClose: {reason}")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--epp=epp"], "--epp: 'epp' is not an address; allowed: HOST:PORT"),
        (["--epp="], "--epp: '' names no address"),
        (["--failure-mode=FailOpen", "--endpoints=:1"], "--endpoints: ':1' is not an address"),
        (["--pick-timeout=2h"], "'2h' is too long; allowed: up to 1h"),
        (["--idle-timeout=0"], "'0' leaves no time"),
        (["--port=65536"], "'65536' is out of range"),
        (["--secure-serving=perhaps"], "'perhaps' is not a boolean; allowed: true or false"),
        (["--pool-file=missing.yaml"], "pool file missing.yaml can't be read"),
    ],
)
def test_what_can_not_be_meant_prints_a_reason_and_no_bootstrap(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["envoy-config", *arguments]) == 2

    output, errors = capsys.readouterr()
    assert output == ""
    assert problem in errors


def test_a_broken_pool_file_is_named(pool_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool_file.write_text("kind: InferencePool")

    assert main(["envoy-config", f"--pool-file={pool_file}"]) == 2

    assert f"pool file {pool_file}: InferencePool is not valid" in capsys.readouterr().err


def test_a_skipped_entry_is_a_warning_beside_the_bootstrap(
    pool_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool_file.write_text(pool_file.read_text() + "- {name: c, address: nowhere}\n")

    assert main(["envoy-config", f"--pool-file={pool_file}"]) == 0

    output, errors = capsys.readouterr()
    assert yaml.safe_load(output)["static_resources"]
    assert f"epp envoy-config: warning: pool file {pool_file}: " in errors
    assert "nowhere" in errors


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_both_outputs_are_the_bootstrap_that_standalone_renders(
    output: str, pool_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [f"--pool-file={pool_file}", "--epp=[::1]:9002,epp:9002"]

    assert main(["envoy-config", *flags, f"--output={output}"]) == 0

    text = capsys.readouterr().out
    settings, _ = parsed(*flags)
    assert yaml.safe_load(text) == envoy_bootstrap(settings)
    if output == "json":
        assert json.loads(text) == envoy_bootstrap(settings)
    else:
        assert "\n# FailOpen; EPP: [::1]:9002, epp:9002, TLS, certificate not verified\n" in text
        assert "&id" not in text
