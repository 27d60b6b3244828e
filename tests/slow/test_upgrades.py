"""What is installed can become what is installed next, in a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helm.chart import Values, rendered_chart
from tests.helm.foreign import is_defined
from tests.helm.values import MATRIX, router
from tests.kube.caller import Caller
from tests.kube.installation import Manifests, rendered, the_one

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("definitions")]


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_a_release_takes_any_other_values(admin: Caller, namespace: str, values: Values) -> None:
    for changed in (router(), values, router()):
        for manifest in rendered_chart("llama", namespace, changed):
            if is_defined(manifest):
                admin.apply(manifest)


def test_what_can_not_be_changed_in_a_cluster_stays(namespace: str, tmp_path: Path) -> None:
    shipped = rendered("base", namespace, tmp_path)
    released = rendered_chart("llama", namespace, router())

    assert selectors_of(shipped) == [{"app.kubernetes.io/name": "epp"}] * 3
    labels = {"app.kubernetes.io/name": "epp", "app.kubernetes.io/instance": "llama"}
    assert selectors_of(released) == [labels] * 3


def selectors_of(manifests: Manifests) -> list[dict[str, str]]:
    """Of the Deployment, which never changes; its pods' labels; and of the Service."""
    deployment = the_one(manifests, "Deployment")["spec"]
    return [
        deployment["selector"]["matchLabels"],
        deployment["template"]["metadata"]["labels"],
        the_one(manifests, "Service")["spec"]["selector"],
    ]


def test_a_version_of_the_chart_alone_replaces_no_pod() -> None:
    template = the_one(rendered_chart("llama", "models", router()), "Deployment")["spec"][
        "template"
    ]

    assert (
        not {"helm.sh/chart", "app.kubernetes.io/version"} & template["metadata"]["labels"].keys()
    )


@pytest.mark.parametrize("overlay", ["overlays/ha", "overlays/metrics-auth", "overlays/namespaced"])
def test_the_base_becomes_an_overlay_and_back(
    admin: Caller, namespace: str, tmp_path: Path, overlay: str
) -> None:
    for name in ("base", overlay, "base"):
        for manifest in rendered(name, namespace, tmp_path):
            admin.apply(manifest)


def test_the_base_becomes_the_sidecar_once_its_service_is_gone(
    admin: Caller, namespace: str, tmp_path: Path
) -> None:
    for manifest in rendered("base", namespace, tmp_path):
        admin.apply(manifest)
    sidecar = rendered("overlays/standalone-sidecar", namespace, tmp_path)
    service = the_one(sidecar, "Service")
    # Headless it stays, with a port that no pod has.
    assert admin.apply(service)["spec"]["clusterIP"] == "None"

    admin.delete(service)

    stored = [admin.apply(manifest) for manifest in sidecar]
    assert the_one(stored, "Service")["spec"]["clusterIP"] != "None"
