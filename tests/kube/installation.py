"""The manifests of config/, installed for a test, and what a pod of theirs finds mounted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from epp.cli.options import ServeCommand, parse_serve
from epp.kubernetes.client import KubeClient
from epp.kubernetes.credentials import find_credentials
from tests.kube.caller import Caller
from tests.kube.harness import BINARIES, ControlPlane

CONFIG = Path(__file__).parents[2] / "config"
POOL_DEFINITION = CONFIG / "crd/inferencepools.yaml"
OBJECTIVE_DEFINITION = CONFIG / "crd/inferenceobjectives.yaml"
_MANUAL = CONFIG.parent / "docs/kubernetes.md"
_YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
_OVERLAY = re.compile(r"```yaml\n# kustomization.yaml\n(.*?)```", re.DOTALL)

Manifests = list[dict[str, Any]]


def rendered(overlay: str, namespace: str, folder: Path, *components: str) -> Manifests:
    """As a user adapts it: by an overlay of their own that names the namespace."""
    kustomization: dict[str, Any] = {"resources": [overlay], "components": list(components)}
    if overlay == "overlays/ha":
        name = f"epp-{namespace}-model-servers.llm-d.ai"
        patch = [{"op": "replace", "path": "/rules/1/resourceNames/0", "value": name}]
        target = {"kind": "Role", "name": "epp-leader-election"}
        kustomization["patches"] = [{"target": target, "patch": yaml.safe_dump(patch)}]
    return _built(kustomization, namespace, folder)


def rendered_as_documented(overlay: str, namespace: str, folder: Path) -> Manifests:
    """By the overlay that docs/kubernetes.md shows for one of ours, for a pool called llama."""
    documented = map(yaml.safe_load, _OVERLAY.findall(_MANUAL.read_text()))
    ours = f"../inference-endpoint-picker/config/{overlay}"
    (kustomization,) = [each for each in documented if each["resources"] == [ours]]
    was = kustomization["namespace"]
    text = yaml.safe_dump({**kustomization, "resources": [overlay]})
    return _built(yaml.safe_load(text.replace(f"-{was}-", f"-{namespace}-")), namespace, folder)


def rendered_with_metrics_auth(namespace: str, folder: Path) -> Manifests:
    """By the two pieces that docs/kubernetes.md shows for another overlay, put together."""
    text = _MANUAL.read_text().partition("\n## Who may read metrics\n")[2].partition("\n## ")[0]
    pieces = [yaml.safe_load(piece) for piece in _YAML.findall(text)]
    kustomization = {key: value for piece in pieces for key, value in piece.items()}
    for kind in ("resources", "components"):
        kustomization[kind] = [each.partition("/config/")[2] for each in kustomization[kind]]
    return _built(kustomization, namespace, folder)


def _built(kustomization: dict[str, Any], namespace: str, folder: Path) -> Manifests:
    kustomization |= {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
    }
    for kind in ("resources", "components"):
        kustomization[kind] = [
            os.path.relpath(CONFIG / each, folder.resolve()) for each in kustomization.get(kind, ())
        ]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    command = [str(BINARIES / "kustomize"), "build", str(folder)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(yaml.safe_load_all(output))


class ServiceAccount:
    """A service account, the picker's as a rule, and the folder with its token in a pod."""

    def __init__(
        self, control_plane: ControlPlane, stored: Mapping[str, Any], folder: Path
    ) -> None:
        self._control_plane = control_plane
        self._names = stored["metadata"]
        self._folder = folder
        shutil.copy(control_plane.credentials.ca, folder / "ca.crt")
        self.write_token()

    def token(self, *, expires_in_seconds: float = 3600) -> str:
        """A new token; a negative time makes one that has expired already."""
        return self._control_plane.credentials.token_of(
            self._names["namespace"],
            self._names["name"],
            self._names["uid"],
            expires_in_seconds=expires_in_seconds,
        )

    def write_token(self, *, expires_in_seconds: float = 3600) -> None:
        """Rotate the token in the pod's folder."""
        token = self.token(expires_in_seconds=expires_in_seconds)
        (self._folder / "token").write_text(token)

    async def connect(self) -> KubeClient:
        """What the picker's process gets in the pod."""
        url = httpx.URL(self._control_plane.url)
        environment = {
            "KUBERNETES_SERVICE_HOST": url.host,
            "KUBERNETES_SERVICE_PORT": str(url.port),
        }
        found = await find_credentials(environ=environment, service_account=self._folder)
        return KubeClient(found)


def install(
    overlay: str, admin: Caller, control_plane: ControlPlane, namespace: str, folder: Path
) -> ServiceAccount:
    """Apply an overlay to a namespace; `folder` is for its files."""
    manifests = rendered(overlay, namespace, folder)
    return install_manifests(manifests, admin, control_plane, folder)


def install_manifests(
    manifests: Manifests, admin: Caller, control_plane: ControlPlane, folder: Path
) -> ServiceAccount:
    """Apply what was rendered."""
    stored = [admin.apply(manifest) for manifest in manifests]
    accounts = {
        each["metadata"]["name"]: each for each in stored if each["kind"] == "ServiceAccount"
    }
    names = [
        each["spec"]["template"]["spec"]["serviceAccountName"]
        for each in manifests
        if each["kind"] == "Deployment"
    ]
    return ServiceAccount(control_plane, accounts[names[0] if names else "epp"], folder)


def the_one(manifests: Manifests, kind: str) -> dict[str, Any]:
    """The one object of that kind."""
    (found,) = [each for each in manifests if each["kind"] == kind]
    return found


def pod_spec_of(manifests: Manifests) -> dict[str, Any]:
    """The pods of the one Deployment."""
    spec: dict[str, Any] = the_one(manifests, "Deployment")["spec"]["template"]["spec"]
    return spec


def pod_of(manifests: Manifests) -> dict[str, Any]:
    """The pod that the Deployment's controller would create."""
    deployment = the_one(manifests, "Deployment")
    template = deployment["spec"]["template"]
    names = {"name": "epp-0", "namespace": deployment["metadata"]["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], **names},
        "spec": template["spec"],
    }


def restrict(admin: Caller, namespace: str) -> None:
    """Let only pods in that meet the restricted security standard."""
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    enforce = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    admin.patch(own, {"metadata": enforce})


def flags_of(manifests: Manifests) -> list[str]:
    """What the Deployment's container is started with."""
    (container,) = pod_spec_of(manifests)["containers"]
    flags: list[str] = container["args"]
    return flags


def environment_of(manifests: Manifests, namespace: str) -> dict[str, str]:
    """The container's environment, in a pod of the Deployment."""
    (container,) = pod_spec_of(manifests)["containers"]
    pod = {
        "metadata.namespace": namespace,
        "metadata.name": "llama-epp-6f7c9d8b5-x2x4z",
        "status.podIP": "10.0.0.9",
        "spec.nodeName": "node-0",
    }
    return {
        entry["name"]: (
            pod[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            if "valueFrom" in entry
            else entry["value"]
        )
        for entry in container["env"]
    }


def command_of(manifests: Manifests, namespace: str) -> ServeCommand:
    """What the container's arguments and environment mean to `epp serve`."""
    return parse_serve(flags_of(manifests), environment_of(manifests, namespace))
