"""The chart of config/helm: rendered by helm, in a real API server, and read by the program."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import yaml

from epp.diagnosis.service_protocol import misleading
from tests.fakes.configurations import assembled
from tests.helm.chart import CHART, Values, helm, lint, rendered_chart
from tests.helm.foreign import is_defined
from tests.helm.values import MATRIX, router
from tests.kube.caller import CLUSTER_SCOPED, Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import (
    Manifests,
    command_of,
    flags_of,
    pod_of,
    pod_spec_of,
    restrict,
    the_one,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("definitions")]

NAMESPACE = "models"


@pytest.fixture(scope="module")
def charts() -> dict[str, Manifests]:
    """Every set of values, rendered for the namespace `models`."""
    return {name: rendered_chart("llama", NAMESPACE, MATRIX[name]) for name in MATRIX}


@pytest.fixture(params=MATRIX)
def manifests(request: pytest.FixtureRequest, charts: dict[str, Manifests]) -> Manifests:
    return charts[request.param]


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_everything_is_accepted_and_applying_it_again_changes_nothing(
    admin: Caller, values: Values, namespace: str
) -> None:
    manifests = [each for each in rendered_chart("llama", namespace, values) if is_defined(each)]

    first = [admin.apply(manifest) for manifest in manifests]
    second = [admin.apply(manifest) for manifest in manifests]

    versions = [[each["metadata"]["resourceVersion"] for each in time] for time in (first, second)]
    assert versions[0] == versions[1]
    homes = {each["metadata"].get("namespace", each["kind"]) for each in first}
    assert homes - {namespace} <= set(CLUSTER_SCOPED)


def test_the_program_knows_all_it_is_started_with(manifests: Manifests) -> None:
    command = command_of(manifests, NAMESPACE)

    assert command.warnings == ()
    assert command.options.pool.namespace == NAMESPACE


def test_the_configuration_in_force_loads_without_warnings(manifests: Manifests) -> None:
    (files,) = [each["data"] for each in manifests if each["kind"] == "ConfigMap"]
    options = command_of(manifests, NAMESPACE).options

    assert options.config_file is not None
    text = files[options.config_file.name]
    assert assembled(text, allow_experimental=options.allow_experimental_plugins).warnings == []


def test_rights_are_for_what_the_program_reads(
    manifests: Manifests, charts: dict[str, Manifests]
) -> None:
    options = command_of(manifests, NAMESPACE).options
    roles = {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Role"}
    rules = roles.pop("llama-epp", {"rules": []})["rules"]
    named = {rule["resources"][0]: rule.get("resourceNames") for rule in rules}

    assert bool(rules) == (manifests is not charts["rights from elsewhere"])
    pool = options.pool.name or "llama-epp"
    lease = [f"epp-{NAMESPACE}-{pool}.llm-d.ai"] if options.elects_leader else None
    if rules:
        assert named.get("inferencepools") == ([options.pool.name] if options.pool.name else None)
        assert named.get("leases") == lease
        assert ("events" in named) == options.emit_events
    # Google's collector reads one Secret.
    assert roles.keys() <= {"llama-epp-metrics-token"}


def test_the_release_is_wired_up(manifests: Manifests) -> None:
    options = command_of(manifests, NAMESPACE).options
    pod = pod_spec_of(manifests)
    (container,) = pod["containers"]
    (service,) = [each for each in manifests if each["kind"] == "Service"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    served = {each["name"]: each["port"] for each in service["spec"]["ports"]}
    ports.pop("debug", None)
    served.pop("debug", None)

    assert ports == {
        "grpc-ext-proc": options.grpc_port,
        "grpc-health": options.grpc_health_port,
        "http-metrics": options.metrics_port,
    }
    assert served == {name: ports[name] for name in served}
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["grpc"]["port"] == options.grpc_health_port
    assert pod["terminationGracePeriodSeconds"] > options.drain_timeout + options.shutdown_grace
    for pool in (each["spec"] for each in manifests if each["kind"] == "InferencePool"):
        assert pool["endpointPickerRef"]["name"] == service["metadata"]["name"]
        assert pool["endpointPickerRef"]["port"]["number"] == options.grpc_port


def test_the_service_says_what_the_picker_speaks(manifests: Manifests) -> None:
    options = command_of(manifests, NAMESPACE).options
    port, *_ = the_one(manifests, "Service")["spec"]["ports"]

    is_misleading = misleading(port["appProtocol"], port["name"], is_tls=options.secure_serving)
    assert is_misleading is None


def test_replicas_that_load_adds_take_load(charts: dict[str, Manifests]) -> None:
    manifests = charts["scaled by load"]
    spec = the_one(manifests, "HorizontalPodAutoscaler")["spec"]

    assert "replicas" not in the_one(manifests, "Deployment")["spec"]
    assert spec["scaleTargetRef"]["name"] == "llama-epp"
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 8)
    targets = {
        each["resource"]["name"]: each["resource"]["target"]["averageUtilization"]
        for each in spec["metrics"]
    }
    assert targets == {"cpu": 80, "memory": 75}
    assert not command_of(manifests, NAMESPACE).options.elects_leader


def test_the_pod_meets_the_restricted_security_standard(admin: Caller, namespace: str) -> None:
    restrict(admin, namespace)

    admin.create(pod_of(rendered_chart("llama", namespace, router())), dryRun="All")


def test_the_cluster_may_choose_the_user_of_the_pod(admin: Caller, namespace: str) -> None:
    restrict(admin, namespace)
    left_out = {"runAsUser": None, "runAsGroup": None}
    values = router(epp={"podSecurityContext": left_out})

    pod = admin.create(pod_of(rendered_chart("llama", namespace, values)), dryRun="All")

    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert not left_out.keys() & pod["spec"]["securityContext"].keys()


def test_a_disruption_budget_never_keeps_a_leaders_node(manifests: Manifests) -> None:
    budgets = [each for each in manifests if each["kind"] == "PodDisruptionBudget"]

    assert not (budgets and command_of(manifests, NAMESPACE).options.elects_leader)


def test_flags_arrive_as_they_were_written(namespace: str) -> None:
    manifests = rendered_chart("llama", namespace, MATRIX["flags of all kinds"])

    options = command_of(manifests, NAMESPACE).options

    assert options.max_buffered_bytes == 2**31
    assert (options.decision_timeout, options.max_loop_lag) == (2.0, 0.5)
    assert options.tls_cipher_suites == ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",)


def test_the_chart_is_free_of_lint() -> None:
    assert "0 chart(s) failed" in lint(router())


def test_a_long_release_name_still_names_objects(admin: Caller, namespace: str) -> None:
    name = "a" * 39 + "-" + "b" * 13

    manifests = rendered_chart(name, namespace, router())

    names = {each["metadata"]["name"] for each in manifests if each["kind"] == "Deployment"}
    assert names == {"a" * 39 + "-epp"}
    for manifest in manifests:
        admin.apply(manifest)


def test_two_releases_share_a_namespace() -> None:
    first, second = (
        {
            (each["kind"], each["metadata"]["name"])
            for each in rendered_chart(release, NAMESPACE, MATRIX["Prometheus"])
        }
        for release in ("llama", "qwen")
    )

    assert not first & second


def test_the_documented_command_installs_and_the_release_can_be_upgraded_and_removed(
    admin: Caller, control_plane: ControlPlane, namespace: str
) -> None:
    page = (CHART.parents[2] / "docs/kubernetes.md").read_text()
    text = page.partition("$ helm install ")[2].partition("```")[0].replace("\\\n", " ")
    arguments = text.replace("-n models", f"-n {namespace}").split()
    arguments[1] = str(CHART)
    cluster = f"--kubeconfig={control_plane.kubeconfig()}"
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    helm("install", *arguments, cluster)
    (installed,) = admin.request("GET", deployments)["items"]
    helm("upgrade", *arguments, "--set", "router.epp.replicas=2", cluster)
    (upgraded,) = admin.request("GET", deployments)["items"]
    helm("uninstall", "llama", "-n", namespace, cluster)

    assert installed["metadata"]["name"] == "llama-epp"
    (container,) = installed["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.org/inference-endpoint-picker:v1"
    assert (installed["spec"]["replicas"], upgraded["spec"]["replicas"]) == (1, 2)
    assert admin.request("GET", deployments)["items"] == []


def test_the_notes_ask_the_doctor_with_the_flags_of_the_picker(
    control_plane: ControlPlane, namespace: str
) -> None:
    flags = {"secure-serving": False, "bind-address": "it's a b"}
    values = router(epp={"flags": flags}, inferencePool={"create": False})
    where = (f"--kubeconfig={control_plane.kubeconfig()}", "-n", namespace)

    text = yaml.safe_dump(values)
    printed = helm("install", "llama", str(CHART), "--dry-run=client", "-f-", *where, given=text)

    (line,) = [each for each in printed.splitlines() if each.startswith("Is all well:")]
    words = shlex.split(line)
    manifests = rendered_chart("llama", namespace, values)
    assert words[words.index("doctor") + 1 :] == flags_of(manifests)


def test_values_and_their_schema_name_the_same_things() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())

    assert list(undeclared(values, schema)) == []


def undeclared(values: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """Paths of values the schema has no property for, where it closes its objects."""
    if not isinstance(values, dict) or "properties" not in schema:
        return []
    found = []
    for key, value in values.items():
        here = f"{path}.{key}"
        if key not in schema["properties"]:
            found.append(here)
        else:
            found += undeclared(value, schema["properties"][key], here)
    return found
