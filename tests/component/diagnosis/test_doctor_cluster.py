"""The checks of a cluster, against an API server in the test's own process."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from epp.datastore.inference_pool import FailureMode
from epp.diagnosis.checks.cluster import look_at_cluster
from epp.diagnosis.checks.permissions import look_at_permissions
from epp.diagnosis.checks.picker_reference import look_at_picker_reference
from epp.diagnosis.checks.pods import look_at_pods
from epp.diagnosis.checks.pool import look_at_pool
from epp.diagnosis.doctor import examine
from epp.diagnosis.doctor_case import PickerReference
from epp.diagnosis.doctor_findings import Finding, Verdict
from epp.diagnosis.doctor_options import DoctorOptions
from epp.diagnosis.doctor_runner import Check, CheckRunner
from epp.diagnosis.other_pools import look_at_other_pools
from epp.kubernetes.client import KubeClient
from tests.fakes.doctor_cases import bad, doctor_case, pool_with, verdicts
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import inference_pool, pod, pod_status
from tests.fakes.kubernetes.scripted import client_of
from tests.fakes.pickers.applications import kubeconfig_for, options_for_tests

OK, WARNING, FAULT, SKIPPED = Verdict.OK, Verdict.WARNING, Verdict.FAULT, Verdict.SKIPPED


async def examined(kube: FakeKubeApi, folder: Path, **flags: Any) -> dict[str, list[Finding]]:
    """What was found, by check; in a cluster that knows no reviews and no Services."""
    kubeconfig = kubeconfig_for(kube.url, folder)
    named = {"pool_name": "pool", "pool_namespace": "models", "kubeconfig": kubeconfig}
    options = options_for_tests(**{**named, **flags})
    findings: dict[str, list[Finding]] = {}
    for finding in await examine(options, DoctorOptions(), environ={}):
        findings.setdefault(finding.check, []).append(finding)
    return findings


async def running_pod(
    kube: FakeKubeApi, name: str, *, ready: bool = True, ip: str = "127.0.0.1", **pod_parts: Any
) -> None:
    manifest = pod(name, **pod_parts)
    await kube.create(manifest)
    await kube.patch(manifest, pod_status(*filter(None, [ip]), ready=ready), "/status")


async def test_a_pool_and_its_pods_are_told(kube: FakeKubeApi, tmp_path: Path) -> None:
    await kube.create(inference_pool(8000))
    await running_pod(kube, "a")

    found = await examined(kube, tmp_path)

    for name in ("cluster", "clock", "pool", "pods"):
        assert [each.verdict for each in found[name]] == [OK]
    assert found["pods"][0].found == "pods with endpoints: 1 of 1; endpoints: 1"
    assert [each.verdict for each in found["picker-port"]] == [SKIPPED]


async def test_an_api_server_that_is_away_costs_one_check(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await kube.kill()

    found = await examined(kube, tmp_path)

    assert [each.verdict for each in found["cluster"]] == [FAULT]
    assert kube.url in found["cluster"][0].found
    for name in ("pool", "permissions", "pods", "picker-reference"):
        assert [each.verdict for each in found[name]] == [SKIPPED]


async def test_credentials_that_are_not_accepted_are_told_without_them(tmp_path: Path) -> None:
    async with answering({}, status=401) as client:
        kubeconfig = kubeconfig_for(client.server, tmp_path)
        case = doctor_case(pool_file=None, pool_name="pool", kubeconfig=kubeconfig)
        (found,) = await look_at_cluster(case)

    assert (found.verdict, case.client) == (FAULT, None)
    assert "does not let us in: 401" in found.found
    assert "secret" not in str(found)


async def test_an_api_server_that_hangs_costs_the_time_of_one_check(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await kube.freeze()
    case = doctor_case(
        pool_file=None, pool_name="pool", kubeconfig=kubeconfig_for(kube.url, tmp_path)
    )
    runner = CheckRunner(seconds=10, left_out=(), check_seconds=0.1)

    findings = await runner.side_by_side(
        [
            Check("cluster", partial(look_at_cluster, case)),
            Check("pool", partial(look_at_pool, case)),
        ]
    )

    assert verdicts(findings) == {"cluster": FAULT, "pool": SKIPPED}
    await kube.thaw()


async def test_a_pool_of_another_name_or_namespace_is_pointed_at(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await kube.create(inference_pool(8000, name="other"))

    (found,) = (await examined(kube, tmp_path))["pool"]

    assert found.verdict is FAULT
    assert "InferencePool models/pool does not exist" in found.found
    assert "there is models/other" in found.advice


async def test_a_doctor_who_is_told_no_pool_says_so(kube: FakeKubeApi, tmp_path: Path) -> None:
    (found,) = (await examined(kube, tmp_path, pool_name=""))["pool"]

    assert found.verdict is WARNING
    assert "--pool-name, --endpoint-selector or --pool-file" in found.advice


async def test_a_cluster_without_the_definition_is_told_what_to_install(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    kube.remove_definition("inference.networking.k8s.io", "inferencepools")

    (found,) = (await examined(kube, tmp_path))["pool"]

    assert "no CustomResourceDefinition" in found.found
    assert "config/crd" in found.advice


async def test_every_mistake_of_a_pool_is_told(kube: FakeKubeApi, tmp_path: Path) -> None:
    await kube.create(inference_pool(0, 70000))

    (found,) = (await examined(kube, tmp_path))["pool"]

    assert found.verdict is FAULT
    assert "spec.targetPorts[0].number" in found.found
    assert "spec.targetPorts[1].number" in found.found


async def test_a_pool_without_a_picker_is_a_warning(kube: FakeKubeApi, tmp_path: Path) -> None:
    await kube.create(inference_pool(8000, endpointPickerRef=None))

    (found,) = (await examined(kube, tmp_path))["pool"]

    assert (found.verdict, "no endpointPickerRef" in found.found) == (WARNING, True)


async def test_a_pool_that_names_the_same_picker_is_a_fault(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await kube.create(inference_pool(8000))
    await kube.create(inference_pool(8000, name="other", labels={"app": "other"}))

    (found,) = bad((await examined(kube, tmp_path))["pool"])

    assert found.verdict is FAULT
    assert "other of models names the same picker, which picks for pool alone" in found.found


async def test_a_pool_of_the_same_pods_is_a_warning(kube: FakeKubeApi, tmp_path: Path) -> None:
    own = {"name": "other-epp", "port": {"number": 9002}}
    same = {"app": "llama", "tier": "gpu"}
    await kube.create(inference_pool(8000))
    await kube.create(inference_pool(8000, name="other", labels=same, endpointPickerRef=own))
    await kube.create(
        inference_pool(8000, name="third", labels={"app": "third"}, endpointPickerRef=None)
    )

    (found,) = bad((await examined(kube, tmp_path))["pool"])

    assert (found.verdict, found.found) == (WARNING, "other of models selects the same pods")


async def test_who_may_see_no_other_pool_is_told_of_none() -> None:
    case = doctor_case(pool_file=None, pool_name="pool", pool_namespace="models")
    async with answering({}, status=403) as client:
        case.client = client

        assert await look_at_other_pools(case, pool_with(FailureMode.FAIL_OPEN), "pool") == []


async def test_a_failure_mode_of_the_flag_that_the_gateway_does_not_know_is_a_warning(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await kube.create(inference_pool(8000))

    found = await examined(kube, tmp_path, failure_mode="FailOpen")

    assert "--failure-mode=FailOpen is for the picker alone" in str(bad(found["pool"]))


async def test_missing_rights_are_told_as_the_rule_that_grants_them(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await kube.create(inference_pool(8000))
    kube.forbid("list", "pods")

    (found,) = (await examined(kube, tmp_path))["pods"]

    assert found.verdict is FAULT
    assert 'apiGroups: [""], resources: [pods], verbs: [list, watch]' in found.advice


async def test_reasons_of_pods_without_endpoint_are_told(kube: FakeKubeApi, tmp_path: Path) -> None:
    await kube.create(inference_pool(8000))
    await running_pod(kube, "a")
    await running_pod(kube, "b", ready=False)
    await running_pod(kube, "c", ip="")
    await running_pod(kube, "d", annotations={"llm-d.ai/active-ports": "9"})

    found = (await examined(kube, tmp_path))["pods"]

    assert {each.found for each in bad(found)} == {
        "no endpoint, not ready: models/b",
        "no endpoint, no usable IP address: models/c",
        "no endpoint, annotation active-ports '9' names none of the target ports 8000: models/d",
    }
    assert {each.verdict for each in bad(found)} == {WARNING}


async def test_a_pool_of_which_no_pod_is_ready_is_a_fault(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await kube.create(inference_pool(8000))
    await running_pod(kube, "a", ready=False)

    (found,) = (await examined(kube, tmp_path))["pods"]

    assert found.verdict is FAULT


async def test_pods_that_are_nearly_selected_are_told_with_what_is_missing(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await kube.create(inference_pool(8000, labels={"app": "llama", "tier": "gpu"}))
    await running_pod(kube, "stranger", labels={})
    await running_pod(kube, "near", labels={"app": "llama", "tier": "cpu"})

    (found,) = (await examined(kube, tmp_path))["pods"]

    assert found.verdict is FAULT
    assert found.found == "no pod of models has app=llama,tier=gpu"
    assert "models/near has tier=cpu, not tier=gpu, models/stranger has no app" in found.advice


async def test_pods_of_a_selector_are_looked_at_without_a_pool(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await running_pod(kube, "a")
    await running_pod(kube, "b", labels={"app": "other"})

    found = await examined(
        kube,
        tmp_path,
        pool_name="",
        endpoint_selector="app in (llama)",
        endpoint_target_ports=(8000,),
        pod_name="epp-1-2",
    )

    assert [each.verdict for each in found["pool"]] == [OK]
    assert found["pods"][0].found == "pods with endpoints: 1 of 1; endpoints: 1"


async def test_containers_that_declare_other_ports_are_a_warning(
    kube: FakeKubeApi, tmp_path: Path
) -> None:
    await kube.create(inference_pool(8000))
    manifest = pod("a")
    manifest["spec"]["containers"][0]["ports"] = [{"containerPort": 8080}]
    await kube.create(manifest)
    await kube.patch(manifest, pod_status("127.0.0.1"), "/status")

    found = (await examined(kube, tmp_path))["pods"]

    (told,) = bad(found)
    assert told.verdict is WARNING
    assert "declare ports 8080, none of them a target port (8000): models/a" in told.found


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(0.0, OK), (-30.0, WARNING), (30.0, WARNING), (3600.0, FAULT)]
)
async def test_clocks_are_compared(
    kube: FakeKubeApi, tmp_path: Path, seconds: float, verdict: Verdict
) -> None:
    case = doctor_case(
        pool_file=None, pool_name="pool", kubeconfig=kubeconfig_for(kube.url, tmp_path)
    )

    findings = list(await look_at_cluster(case, now=lambda: time.time() + seconds))

    assert case.client is not None
    await case.client.close()
    assert verdicts(findings)["clock"] is verdict


@pytest.mark.parametrize(
    ("version", "date"),
    [
        (b"{}", "Mon, 30 Nov 99999999999999999999 18:00:00 GMT"),
        (b"{}", "yesterday"),
        (b"[" * 10_000, "yesterday"),
        (b"\xff", "yesterday"),
    ],
    ids=["year", "no date", "nested", "no text"],
)
async def test_of_an_api_server_that_tells_nonsense_of_itself_no_more_is_known(
    tmp_path: Path, version: bytes, date: str
) -> None:
    async def page(_: web.Request) -> web.Response:
        headers = {"Date": date, "Content-Type": "application/json"}
        return web.Response(body=version, headers=headers)

    application = web.Application()
    application.router.add_get("/version", page)
    async with client_of(application) as other:
        kubeconfig = kubeconfig_for(other.server, tmp_path)
        case = doctor_case(pool_file=None, pool_name="pool", kubeconfig=kubeconfig)

        findings = list(await look_at_cluster(case))

        assert case.client is not None
        await case.client.close()
    assert verdicts(findings) == {"cluster": OK, "clock": SKIPPED}


@asynccontextmanager
async def answering(pages: dict[str, Any], status: int = 404) -> AsyncIterator[KubeClient]:
    """A client of a server with these pages; functions are asked with what was posted."""

    async def page(request: web.Request) -> web.Response:
        found = pages.get(request.path)
        if callable(found):
            found = found(await request.json())
        if found is None:
            document = {"kind": "Status", "reason": "", "message": "as the test wants it"}
            return web.json_response(document, status=status)
        return web.json_response(found)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", page)
    async with client_of(application) as client:
        yield client


def reviews(granted: Collection[tuple[str, str]], seen: list[Any]) -> dict[str, Any]:
    def review(posted: Any) -> Any:
        seen.append(posted["spec"])
        attributes = posted["spec"]["resourceAttributes"]
        is_granted = (attributes["verb"], attributes["resource"]) in granted
        return {"status": {"allowed": is_granted}}

    root = "/apis/authorization.k8s.io/v1/"
    return {
        f"{root}selfsubjectaccessreviews": review,
        f"{root}subjectaccessreviews": review,
    }


PODS = {("list", "pods"), ("watch", "pods")}
POOLS = {("list", "inferencepools"), ("watch", "inferencepools")}
OBJECTIVES = {("list", "inferenceobjectives"), ("watch", "inferenceobjectives")}


async def permissions(granted: Collection[tuple[str, str]], **flags: Any) -> list[Finding]:
    case = doctor_case(pool_file=None, pool_name="pool", pool_namespace="models", **flags)
    async with answering(reviews(granted, [])) as client:
        case.client = client
        return list(await look_at_permissions(case))


async def test_rights_that_are_all_there_are_one_line() -> None:
    (found,) = await permissions(PODS | POOLS | OBJECTIVES)

    assert found.verdict is OK


async def test_each_resource_whose_rights_are_missing_is_a_line() -> None:
    findings = await permissions({("list", "pods")}, ha_enable_leader_election=True)

    assert [(each.verdict, each.found.rpartition(" may not ")[2]) for each in findings] == [
        (FAULT, "watch pods"),
        (FAULT, "list, watch inferencepools"),
        (WARNING, "list, watch inferenceobjectives: all requests have priority 0"),
        (FAULT, "create, get, update leases"),
    ]
    assert "resourceNames: [epp-models-pool.llm-d.ai]" in findings[3].advice


async def test_the_rights_of_a_service_account_can_be_asked_for() -> None:
    case = doctor_case(
        pool_file=None, pool_name="pool", pool_namespace="models", service_account="epp"
    )
    seen: list[Any] = []
    async with answering(reviews(PODS | POOLS | OBJECTIVES, seen)) as client:
        case.client = client
        (found,) = await look_at_permissions(case)

    assert found.found == "all granted to ServiceAccount models/epp"
    assert {each["user"] for each in seen} == {"system:serviceaccount:models:epp"}


SERVICE = "/api/v1/namespaces/models/services/epp"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/models/endpointslices"
PORT = {"port": 9002, "name": "grpc-ext-proc"}


@pytest.mark.parametrize(
    ("pages", "verdict", "words"),
    [
        ({}, FAULT, "Service models/epp, which the pool names"),
        (
            {SERVICE: {"spec": {"ports": [{"port": 9003}]}}},
            FAULT,
            "has no port 9002; it has 9003",
        ),
        (
            {SERVICE: {"spec": {"type": "ExternalName"}}},
            FAULT,
            "ExternalName",
        ),
        (
            {
                SERVICE: {"spec": {"ports": [PORT], "selector": {"app": "epp"}}},
                SLICES: {"items": []},
            },
            FAULT,
            "leads to no pod: its selector is app=epp",
        ),
        (
            {
                SERVICE: {"spec": {"ports": [PORT]}},
                SLICES: {"items": [{"endpoints": [{"conditions": {"ready": False}}]}]},
            },
            FAULT,
            "leads to no picker that is ready; not ready: 1",
        ),
        (
            {
                SERVICE: {"spec": {"ports": [PORT]}},
                SLICES: {
                    "items": [
                        {
                            "endpoints": [
                                {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
                                {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
                            ]
                        }
                    ]
                },
            },
            OK,
            "pickers ready: 1",
        ),
        ({SERVICE: {"spec": {"ports": [PORT]}}}, OK, "has port 9002"),
    ],
    ids=[
        "no Service",
        "wrong port",
        "ExternalName",
        "nobody there",
        "nobody ready",
        "ready",
        "no slices",
    ],
)
async def test_the_service_that_the_pool_names_is_looked_at(
    pages: dict[str, Any], verdict: Verdict, words: str
) -> None:
    case = doctor_case(pool_file=None, pool_name="pool", pool_namespace="models")
    case.reference = PickerReference(kind="Service", name="epp", port=9002)
    async with answering(pages) as client:
        case.client = client
        (found,) = await look_at_picker_reference(case)

    assert found.verdict is verdict
    assert words in found.found


@pytest.mark.parametrize(
    ("port", "slices"),
    [
        ({"targetPort": 9090}, []),
        ({"targetPort": "metrics"}, [{"name": "front", "port": 9090}]),
    ],
    ids=["number", "name"],
)
async def test_a_service_that_leads_to_another_port_of_the_picker_is_a_fault(
    port: dict[str, Any], slices: list[dict[str, Any]]
) -> None:
    case = doctor_case(pool_file=None, pool_name="pool", pool_namespace="models")
    case.reference = PickerReference(kind="Service", name="epp", port=80)
    pages = {
        SERVICE: {"spec": {"ports": [{"port": 80, "name": "front", **port}]}},
        SLICES: {"items": [{"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": slices}]},
    }
    async with answering(pages) as client:
        case.client = client
        replicas, found = await look_at_picker_reference(case)

    assert (replicas.verdict, found.verdict) == (OK, FAULT)
    assert "port 80 leads to the picker's port 9090, which is that of metrics" in found.found
    assert found.found.endswith("ext_proc is on 9002")


@pytest.mark.parametrize(
    ("status", "advice"), [(403, "add to the Role: "), (429, "rights are not the matter")]
)
async def test_rights_are_advised_where_they_are_missing_only(status: int, advice: str) -> None:
    case = doctor_case(pool_file=None, pool_name="pool", pool_namespace="models")
    async with answering({}, status=status) as client:
        case.client = client
        (pool,) = await look_at_pool(case)
        case.pool = pool_with(FailureMode.FAIL_CLOSE)
        (pods,) = await look_at_pods(case)
        case.reference = PickerReference(kind="Service", name="epp", port=9002)
        (service,) = await look_at_picker_reference(case)

    assert (pool.verdict, pods.verdict, service.verdict) == (FAULT, FAULT, SKIPPED)
    assert pool.advice.startswith(advice)
    assert pods.advice.startswith(advice)


async def test_a_service_that_names_another_protocol_is_a_warning() -> None:
    case = doctor_case(pool_file=None, pool_name="pool", pool_namespace="models")
    case.reference = PickerReference(kind="Service", name="epp", port=9002)
    other = {"port": 9090, "appProtocol": "http"}
    plaintext = {**PORT, "appProtocol": "kubernetes.io/h2c"}
    async with answering({SERVICE: {"spec": {"ports": [other, plaintext]}}}) as client:
        case.client = client
        _, found = await look_at_picker_reference(case)

    assert found.verdict is WARNING
    assert "Service models/epp port 9002 says kubernetes.io/h2c" in found.found
    assert found.advice == "set appProtocol: http2"
