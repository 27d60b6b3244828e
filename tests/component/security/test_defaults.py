"""What is open without being asked for: addresses, rights, and what the manifests let in."""

from __future__ import annotations

import argparse
import re
from ipaddress import ip_address
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from epp.app.options import ServeOptions
from epp.cli.envoy_config import settings_from
from epp.cli.envoy_flags import add_arguments
from epp.cli.options import parse_serve
from epp.datastore.inference_pool import FailureMode
from epp.simulator.settings import SimulatorSettings
from epp.standalone.addresses import assign_addresses
from epp.standalone.envoy_config import envoy_bootstrap
from epp.standalone.options import StandaloneOptions
from epp.standalone.ports import FreePorts

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "config"
MANIFESTS = sorted(
    path
    for folder in ("base", "components", "overlays")
    for path in (CONFIG / folder).rglob("*.yaml")
    if path.name not in ("kustomization.yaml", "envoy.yaml")
)
CHART = sorted((CONFIG / "helm").rglob("*.yaml")) + sorted((CONFIG / "helm").rglob("*.tpl"))
ADMIN_PORT = ServeOptions().admin_port


def documents(kind: str) -> list[dict[str, Any]]:
    """Every manifest of a kind, patches included."""
    loaded = [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text()) if each]
    return [each for each in loaded if each["kind"] == kind]


def is_loopback(host: str) -> bool:
    return ip_address(host).is_loopback


def test_the_admin_port_is_on_loopback_unless_told_otherwise() -> None:
    assert is_loopback(ServeOptions().admin_address)
    assert is_loopback(parse_serve(["--pool-name=a"]).options.admin_address)


def test_a_standalone_run_listens_on_loopback_only() -> None:
    addresses = assign_addresses(StandaloneOptions(), FreePorts())

    names = ("listener", "envoy_admin", "ext_proc", "health", "metrics", "admin")
    assert all(is_loopback(getattr(addresses, name).host) for name in names)


def test_clients_of_other_machines_reach_nothing_of_a_standalone_run_but_envoys_listener() -> None:
    options = StandaloneOptions(listen_address="0.0.0.0")

    addresses = assign_addresses(options, FreePorts())

    assert addresses.listener.host == "0.0.0.0"
    names = ("envoy_admin", "ext_proc", "health", "metrics", "admin")
    assert all(is_loopback(getattr(addresses, name).host) for name in names)


def test_a_simulator_listens_on_loopback_unless_told_otherwise() -> None:
    assert is_loopback(SimulatorSettings().host)


@pytest.mark.parametrize(
    "flags",
    [
        [f"--failure-mode={mode}", f"--listen-address={listen}", *tls]
        for mode, listen, tls in product(
            FailureMode, ("0.0.0.0", "::"), ([], ["--secure-serving=false"])
        )
    ],
    ids=" ".join,
)
def test_the_admin_pages_of_envoy_are_on_loopback_in_every_bootstrap(flags: list[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    settings, _ = settings_from(parser.parse_args([*flags, "--endpoints=models:8000"]))

    admin = envoy_bootstrap(settings)["admin"]["address"]["socket_address"]
    assert is_loopback(admin["address"])


def test_the_admin_port_is_in_no_manifest_and_not_in_the_image() -> None:
    refusals = "_validations.tpl"  # renders nothing: no other port may be that one
    for path in (*MANIFESTS, *CHART, ROOT / "Dockerfile"):
        if path.name == refusals:
            continue
        assert not re.search(rf"\b{ADMIN_PORT}\b|admin-address", path.read_text()), path


ALLOWED = {
    ("", "pods"): {"list", "watch"},
    ("inference.networking.k8s.io", "inferencepools"): {"list", "watch"},
    ("llm-d.ai", "inferenceobjectives"): {"list", "watch"},
    ("inference.networking.x-k8s.io", "inferenceobjectives"): {"list", "watch"},
    ("coordination.k8s.io", "leases"): {"create", "get", "update"},
    ("", "events"): {"create", "patch"},
    ("authentication.k8s.io", "tokenreviews"): {"create"},
    ("authorization.k8s.io", "subjectaccessreviews"): {"create"},
}
IN_THE_CLUSTER = {"tokenreviews", "subjectaccessreviews"}


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_the_manifests_grant_what_is_listed_and_nothing_else(kind: str) -> None:
    for role in documents(kind):
        for rule in role["rules"]:
            if "nonResourceURLs" in rule:
                assert rule == {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
                continue
            for group, resource in product(rule["apiGroups"], rule["resources"]):
                assert set(rule["verbs"]) <= ALLOWED[group, resource]
                assert (resource in IN_THE_CLUSTER) == (kind == "ClusterRole")
                if set(rule["verbs"]) & {"update"} or resource == "inferencepools":
                    assert rule["resourceNames"], f"{resource} is limited to a name"


def test_the_chart_grants_what_the_manifests_grant() -> None:
    text = (CONFIG / "helm/inference-endpoint-picker/templates/rbac.yaml").read_text()
    rules = re.findall(r"resources: \[(\w+)\](?:\n  resourceNames: .*)?\n  verbs: \[(.+?)\]", text)

    assert rules
    for resource, verbs in rules:
        (allowed,) = {frozenset(of) for (_, name), of in ALLOWED.items() if name == resource}
        assert set(verbs.split(", ")) <= allowed


def test_no_manifest_reads_secrets_but_one_by_name_or_asks_for_more_of_the_node() -> None:
    for path in (*MANIFESTS, *CHART):
        text = path.read_text()
        assert not re.search(r"resources: \[.*secrets.*\]\n(?!  resourceNames: )", text), path
        assert not re.search(r"hostNetwork: true|hostPID|hostPath|privileged: true", text), path


def test_every_container_runs_without_rights_on_a_root_it_can_not_write() -> None:
    (base,) = [each for each in documents("Deployment") if "selector" in each["spec"]]
    pod = base["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for deployment in documents("Deployment"):
        spec = deployment["spec"].get("template", {}).get("spec", {})
        for container in [*spec.get("initContainers", ()), *spec.get("containers", ())]:
            if "image" in container:
                assert container["securityContext"] == {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                }


def test_the_token_of_the_service_account_is_for_the_pods_that_ask_for_it() -> None:
    assert documents("ServiceAccount")
    for account in documents("ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


def test_the_network_policy_lets_in_three_ports_and_out_what_is_needed() -> None:
    (base, *patches) = documents("NetworkPolicy")

    assert base["spec"]["policyTypes"] == ["Ingress", "Egress"]
    opened = {
        port["port"]
        for policy in (base, *patches)
        for rule in policy["spec"]["ingress"]
        for port in rule["ports"]
    }
    assert opened == {"grpc-ext-proc", "http-metrics", "grpc-health", "http"}
    for policy in (base, *patches):
        for rule in policy["spec"]["ingress"]:
            names = {port["port"] for port in rule["ports"]}
            assert "from" in rule or names <= {"grpc-health", "http"}


@pytest.mark.parametrize(
    "lock", sorted(ROOT.glob("requirements*.lock")), ids=lambda path: path.name
)
def test_every_package_of_a_lock_file_is_pinned_by_hash(lock: Path) -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", "\n" + lock.read_text())[1:]

    assert entries
    for entry in entries:
        assert "==" in entry.partition("\n")[0]
        assert "--hash=sha256:" in entry
    assert "http" not in "".join(re.findall(r"^--.*", lock.read_text(), re.M))
