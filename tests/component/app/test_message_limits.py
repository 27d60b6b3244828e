"""Limits of gRPC messages hold however endpoints are found, on either transport (pitfall 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import inference_pool, pod, pod_status
from tests.fakes.pickers.applications import kubeconfig_for, options_for_tests, running
from tests.fakes.pickers.gateway_client import gateway_client
from tests.fakes.pool_files import MANIFEST

MIB = 1 << 20
ENDPOINTS = "endpoints: [{name: gpu-a, address: 10.0.0.1}]"
DISCOVERY = """
plugins:
- {type: max-score-picker}
- {type: file-discovery, parameters: {path: %s}}
schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}]}]
dataLayer: {injectDefaults: false, discovery: {pluginRef: file-discovery}}
"""
TRANSPORTS = pytest.mark.parametrize("transport", ["native", "grpc"])
MODES = pytest.mark.parametrize("mode", ["pool file", "discovery", "cluster", "selector"])


def body_of(size: int) -> bytes:
    return b'{"model":"m","prompt":"%s"}' % (b"x" * size)


async def source_of(mode: str, kube: FakeKubeApi, folder: Path) -> dict[str, Any]:
    """Options that say where the endpoint is found."""
    path = folder / "pool.yaml"
    if mode == "pool file":
        path.write_text(MANIFEST + ENDPOINTS)
        return {"pool_file": path}
    if mode == "discovery":
        path.write_text("endpoints: [{name: gpu-a, address: 10.0.0.1, port: 8000}]")
        return {"config_text": DISCOVERY % path}
    await kube.create(pod("a"))
    await kube.patch(pod("a"), pod_status("10.0.0.1"), "/status")
    access = {"kubeconfig": kubeconfig_for(kube.url, folder), "pool_namespace": "models"}
    if mode == "selector":
        ports = {"endpoint_selector": "app in (llama)", "endpoint_target_ports": (8000,)}
        return {**access, **ports, "pod_name": "my-epp-7c9d8f6b5d-x2x4z"}
    await kube.create(inference_pool(8000))
    return {**access, "pool_name": "pool"}


@TRANSPORTS
@MODES
async def test_a_message_over_the_receive_limit_is_refused_and_one_within_it_answered(
    kube: FakeKubeApi, tmp_path: Path, mode: str, transport: str
) -> None:
    options = options_for_tests(
        **await source_of(mode, kube, tmp_path), transport=transport, grpc_max_recv_msg_size=5 * MIB
    )
    async with running(options) as (application, ports):
        await eventually(lambda: bool(application.snapshot().endpoints))
        async with gateway_client(ports.grpc) as client:
            within, over = client.exchange(), client.exchange()
            await within.post(body_of(5 * MIB - 1000))
            assert await within.picked() == "10.0.0.1:8000"
            await over.post(body_of(5 * MIB))
            assert (await over.status()).name == "RESOURCE_EXHAUSTED"
            assert "--grpc-max-recv-msg-size" in await over.status_message()
            within.cancel()


@TRANSPORTS
async def test_an_answer_over_the_send_limit_is_not_sent(tmp_path: Path, transport: str) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text(MANIFEST + ENDPOINTS)
    options = options_for_tests(pool_file=path, transport=transport, grpc_max_send_msg_size=2000)
    async with running(options) as (_, ports), gateway_client(ports.grpc) as client:
        within, over = client.exchange(), client.exchange()
        await within.post(body_of(1000))
        assert await within.picked() == "10.0.0.1:8000"
        await over.post(body_of(3000))
        assert (await over.answer()).kind == "request_headers"
        assert (await over.status()).name in ("INTERNAL", "RESOURCE_EXHAUSTED")
        within.cancel()
