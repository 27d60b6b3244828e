"""`epp pool show` against a running picker, a cluster and a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from epp.admin.http_port import HttpPort
from epp.cli.main import main
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import inference_pool, pod, pod_status
from tests.fakes.pickers.applications import kubeconfig_for, options_for_tests, running
from tests.fakes.pool_files import MANIFEST

POOL = MANIFEST + "endpoints: [{name: gpu-a, address: 10.0.0.1}]"


@pytest.fixture
def kubeconfig(kube: FakeKubeApi, tmp_path: Path) -> str:
    return str(kubeconfig_for(kube.url, tmp_path))


@pytest.fixture
def pool_file(tmp_path: Path) -> Path:
    path = tmp_path / "pool.yaml"
    path.write_text(POOL)
    return path


async def show(*arguments: str) -> int:
    """Run the command beside the loop that serves it."""
    return await asyncio.to_thread(main, ["pool", "show", *arguments])


async def in_cluster(kubeconfig: str, *arguments: str) -> int:
    return await show(
        "--pool-name=pool", "--pool-namespace=models", "--kubeconfig", kubeconfig, *arguments
    )


async def test_a_running_picker_is_asked_for_its_pool(
    pool_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(options_for_tests(pool_file=pool_file)) as (_, ports):
        assert await show("--admin", f"127.0.0.1:{ports.admin}") == 0

    output = capsys.readouterr().out
    assert "pool          default/pool\n" in output
    assert "10.0.0.1:8000  default/gpu-a-rank-0  0          0             -" in output


async def test_a_picker_that_is_not_ready_is_a_failure(
    pool_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = options_for_tests(pool_file=pool_file, drain_timeout=60.0)
    async with running(settings) as (application, ports):
        stopping = asyncio.create_task(application.stop())
        await asyncio.sleep(0)
        assert await show("--admin", f"127.0.0.1:{ports.admin}", "--output=json") == 1
        application.stop_at_once()
        await stopping

    output = capsys.readouterr().out
    document = json.loads(output[output.index("{\n") :])
    assert document["notReadyReasons"] == ["shutting down"]
    assert document["endpoints"][0]["address"] == "10.0.0.1:8000"


async def test_where_nobody_listens_the_way_out_is_named(
    unused_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await show("--admin", f"127.0.0.1:{unused_port}") == 1

    assert capsys.readouterr().err == (
        f"epp pool show: no Endpoint Picker answers at 127.0.0.1:{unused_port}: connection"
        " refused; name its admin port by --admin, or read the pool by --pool-name or"
        " --pool-file\n"
    )


@pytest.fixture
async def unused_port() -> int:
    port = HttpPort(web.Application(), "127.0.0.1", 0, port_flag="")
    number = await port.start()
    await port.stop()
    return number


async def test_another_servers_port_is_told_from_an_admin_port(
    capsys: pytest.CaptureFixture[str],
) -> None:
    port = HttpPort(web.Application(), "127.0.0.1", 0, port_flag="")
    number = await port.start()

    assert await show("--admin", f"127.0.0.1:{number}") == 1

    await port.stop()
    assert f"127.0.0.1:{number} answers 404, but is not the admin port" in capsys.readouterr().err


async def test_an_admin_address_that_is_none_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await show("--admin", "9091") == 2

    assert "'9091' is not an address; allowed: HOST:PORT" in capsys.readouterr().err


async def test_a_pool_of_the_cluster_is_shown_with_the_reasons_of_its_pods(
    kube: FakeKubeApi, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await kube.create(inference_pool(8000))
    for name, ip, ready in (("a", "10.0.0.1", True), ("b", "10.0.0.2", False)):
        await kube.create(pod(name))
        await kube.patch(pod(name), pod_status(ip, ready=ready), "/status")
    await kube.create(pod("stranger", {"app": "other"}))

    assert await in_cluster(kubeconfig) == 0

    output = capsys.readouterr().out
    assert "pool          models/pool\n" in output
    assert "10.0.0.1:8000  models/a-rank-0\n" in output
    assert "models/b              not ready\n" in output
    assert "stranger" not in output
    assert kube.requests("watch", "pods") == []


async def test_a_pool_that_does_not_exist_is_a_failure_that_says_so(
    kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await in_cluster(kubeconfig) == 1

    output = capsys.readouterr().out
    assert "ready         no: no pool to serve\n" in output
    assert "problem       InferencePool models/pool does not exist\n" in output


async def test_a_cluster_without_the_definition_is_a_failure_that_says_so(
    kube: FakeKubeApi, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kube.remove_definition("inference.networking.k8s.io", "inferencepools")

    assert await in_cluster(kubeconfig) == 1

    assert "the cluster has no CustomResourceDefinition of it" in capsys.readouterr().out


async def test_a_pool_that_is_not_valid_is_a_failure_with_every_mistake(
    kube: FakeKubeApi, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await kube.create(inference_pool(0, 70000))

    assert await in_cluster(kubeconfig, "--output=json") == 1

    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert "spec.targetPorts[0].number" in problem
    assert "spec.targetPorts[1].number" in problem


async def test_a_missing_right_is_named(
    kube: FakeKubeApi, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await kube.create(inference_pool(8000))
    kube.forbid("list", "pods")

    assert await in_cluster(kubeconfig) == 1

    error = capsys.readouterr().err
    assert error.startswith(f"epp pool show: the API server {kube.url} refuses: 403 Forbidden")
    assert 'cannot list resource "pods"' in error


async def test_an_api_server_that_is_away_is_a_failure(
    kube: FakeKubeApi, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await kube.kill()

    assert await in_cluster(kubeconfig) == 1

    assert f"no answer from the API server {kube.url}" in capsys.readouterr().err


async def test_a_pool_file_is_shown_without_a_picker(
    pool_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await show("--pool-file", str(pool_file)) == 0

    assert "10.0.0.1:8000  default/gpu-a-rank-0\n" in capsys.readouterr().out


async def test_a_broken_pool_file_is_a_failure_that_names_the_mistake(
    pool_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await asyncio.to_thread(pool_file.write_text, POOL.replace("number: 8000", "number: 0"))

    assert await show("--pool-file", str(pool_file)) == 1

    assert "spec.targetPorts[0].number" in capsys.readouterr().out


async def test_two_sources_exclude_each_other(
    pool_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await show("--pool-file", str(pool_file), "--pool-name=a") == 2

    assert "not allowed with argument --pool-file" in capsys.readouterr().err
