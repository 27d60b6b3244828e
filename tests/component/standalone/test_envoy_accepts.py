"""Envoy itself reads every flavour of the bootstrap."""

from __future__ import annotations

import json
import subprocess

import pytest

from epp.datastore.inference_pool import AppProtocol
from epp.standalone.envoy_binary import envoy_binary
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import EnvoySettings, envoy_bootstrap


@pytest.mark.parametrize("app_protocol", AppProtocol)
@pytest.mark.parametrize("epp_tls", [False, True], ids=["plaintext", "tls"])
@pytest.mark.parametrize("fail_open", [False, True], ids=["fail close", "fail open"])
@pytest.mark.parametrize("response_bodies", [False, True], ids=["requests only", "both bodies"])
def test_envoy_accepts_the_bootstrap(
    response_bodies: bool, fail_open: bool, epp_tls: bool, app_protocol: AppProtocol
) -> None:
    settings = EnvoySettings(
        listener=Address("127.0.0.1", 8080),
        admin=Address("127.0.0.1", 19000),
        pickers=(Address("127.0.0.1", 9002), Address("localhost", 9012)),
        endpoints=(Address("10.0.0.1", 8000), Address("fd00::1", 8000)),
        fail_open=fail_open,
        app_protocol=app_protocol,
        access_log="/dev/stdout",
        epp_tls=epp_tls,
        response_bodies=response_bodies,
    )
    document = json.dumps(envoy_bootstrap(settings))

    result = subprocess.run(
        [str(envoy_binary()), "--mode", "validate", "--config-yaml", document],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert "configuration '' OK" in result.stdout
