"""config/ as kustomize renders it, in a real API server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from epp.standalone.envoy_binary import envoy_binary
from tests.kube.caller import CLUSTER_SCOPED, Caller, Refused
from tests.kube.installation import (
    CONFIG,
    command_of,
    flags_of,
    pod_of,
    pod_spec_of,
    rendered,
    rendered_as_documented,
    rendered_with_metrics_auth,
    restrict,
)

pytestmark = pytest.mark.slow

OVERLAYS = [
    "base",
    "overlays/ha",
    "overlays/metrics-auth",
    "overlays/namespaced",
    "overlays/standalone-sidecar",
]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_everything_is_accepted_and_applying_it_again_changes_nothing(
    admin: Caller, namespace: str, tmp_path: Path, overlay: str
) -> None:
    manifests = rendered(overlay, namespace, tmp_path)

    first = [admin.apply(manifest) for manifest in manifests]
    second = [admin.apply(manifest) for manifest in manifests]

    assert {
        each["metadata"]["namespace"] for each in first if each["kind"] not in CLUSTER_SCOPED
    } == {namespace}
    versions = [[each["metadata"]["resourceVersion"] for each in time] for time in (first, second)]
    assert versions[0] == versions[1]


@pytest.mark.parametrize("overlay", ["base", "overlays/ha"])
def test_the_documented_overlay_is_for_one_pool_in_all_its_parts(
    admin: Caller, namespace: str, tmp_path: Path, overlay: str
) -> None:
    manifests = rendered_as_documented(overlay, namespace, tmp_path)

    stored = [admin.apply(manifest) for manifest in manifests]

    roles = [each for each in stored if each["kind"] == "Role"]
    rules = [rule for role in roles for rule in role["rules"]]
    named = [rule["resourceNames"] for rule in rules if "resourceNames" in rule]
    lease = f"epp-{namespace}-llama.llm-d.ai"
    assert named == ([["llama"]] if overlay == "base" else [["llama"], [lease]])
    assert flags_of(manifests)[0] == "--pool-name=llama"
    assert {each["metadata"]["namespace"] for each in stored} == {namespace}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_container_is_started_with_what_the_program_knows(
    namespace: str, tmp_path: Path, overlay: str
) -> None:
    command = command_of(rendered(overlay, namespace, tmp_path), namespace)

    assert command.warnings == ()
    assert command.options.pool.namespace == namespace


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_metrics_authentication_takes_rights_beyond_the_namespace(
    namespace: str, tmp_path: Path, overlay: str
) -> None:
    manifests = rendered(overlay, namespace, tmp_path)

    beyond = {each["kind"] for each in manifests if each["kind"] in CLUSTER_SCOPED}
    is_asked = "--metrics-endpoint-auth=false" not in flags_of(manifests)
    assert bool(beyond) == is_asked == (overlay == "overlays/metrics-auth")


@pytest.mark.parametrize("overlay", ["base", "overlays/standalone-sidecar"])
def test_the_pod_meets_the_restricted_security_standard(
    admin: Caller, namespace: str, tmp_path: Path, overlay: str
) -> None:
    restrict(admin, namespace)
    pod = pod_of(rendered(overlay, namespace, tmp_path))

    admin.create(pod, dryRun="All")

    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Refused, match="PodSecurity"):
        admin.create(pod, dryRun="All")


def test_the_example_pool_is_accepted(admin: Caller, namespace: str) -> None:
    pool = yaml.safe_load((CONFIG / "examples/inference-pool.yaml").read_text())
    pool["metadata"]["namespace"] = namespace

    admin.apply(pool)


def test_metrics_authentication_goes_with_any_overlay_as_documented(
    admin: Caller, namespace: str, tmp_path: Path
) -> None:
    manifests = rendered_with_metrics_auth(namespace, tmp_path)

    stored = [admin.apply(manifest) for manifest in manifests]

    flags = flags_of(manifests)
    (binding,) = [each for each in stored if each["kind"] == "ClusterRoleBinding"]
    assert "--ha-enable-leader-election" in flags
    assert not [flag for flag in flags if flag.startswith("--metrics-endpoint-auth")]
    assert binding["metadata"]["name"] == "epp-metrics-auth-models"
    assert [each["namespace"] for each in binding["subjects"]] == [namespace]


def test_envoy_takes_the_bootstrap_of_the_sidecar(namespace: str, tmp_path: Path) -> None:
    manifests = rendered("overlays/standalone-sidecar", namespace, tmp_path)
    (document,) = [each for each in manifests if each["kind"] == "ConfigMap"]
    (envoy,) = pod_spec_of(manifests)["initContainers"]
    folder = tmp_path / "etc"
    folder.mkdir()
    for name, text in document["data"].items():
        (folder / name).write_text(text)
    arguments = [each.replace("/etc/envoy", str(folder)) for each in envoy["args"]]

    done = subprocess.run(
        [str(envoy_binary()), "--mode", "validate", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_pods_of_a_release_share_one_volume_with_envoy(namespace: str, tmp_path: Path) -> None:
    manifests = rendered("overlays/standalone-sidecar", namespace, tmp_path)
    (document,) = [each for each in manifests if each["kind"] == "ConfigMap"]

    (volume,) = pod_spec_of(manifests)["volumes"]

    assert volume["configMap"]["name"] == document["metadata"]["name"]
