"""What rights the overlays of config/ give, in a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epp.datastore.inference_objective import GROUPS
from tests.kube.caller import CLUSTER_SCOPED, Caller, Refused, collection_of
from tests.kube.harness import ControlPlane
from tests.kube.installation import Manifests, install, install_manifests, rendered

pytestmark = pytest.mark.slow

PODS = "/api/v1/namespaces/{namespace}/pods"
POOLS = "/apis/inference.networking.k8s.io/v1/namespaces/{namespace}/inferencepools"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
SECRETS = "/api/v1/namespaces/{namespace}/secrets"
THIS_POOL = {"fieldSelector": "metadata.name=model-servers"}
THIS_LEASE = "epp-{namespace}-model-servers.llm-d.ai"


def test_a_tenant_of_one_namespace_may_install_what_is_namespaced(
    admin: Caller, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    account = install_manifests(tenant_of(namespace), admin, control_plane, tmp_path)

    with Caller(control_plane, account.token()) as tenant:
        for manifest in rendered("overlays/namespaced", namespace, tmp_path):
            tenant.apply(manifest)
        cluster_wide = [
            each
            for each in rendered("overlays/metrics-auth", namespace, tmp_path)
            if each["kind"] in CLUSTER_SCOPED
        ]
        for manifest in cluster_wide:
            with pytest.raises(Refused, match="forbidden"):
                tenant.apply(manifest)


def tenant_of(namespace: str) -> Manifests:
    """Somebody who may do everything in a namespace, but hand on no right they don't have."""
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    groups = [
        "",
        "apps",
        "policy",
        "networking.k8s.io",
        "rbac.authorization.k8s.io",
        "inference.networking.k8s.io",
        "inference.networking.x-k8s.io",
        "llm-d.ai",
    ]
    rbac = "rbac.authorization.k8s.io"
    names = {"name": "tenant", "namespace": namespace}
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    subject = {"kind": "ServiceAccount", "name": "epp", "namespace": namespace}
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": verbs}]
    role = {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": names, "rules": rules}
    return [
        {**account, "metadata": {**names, "name": "epp"}},
        role,
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": names,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "tenant"},
            "subjects": [subject],
        },
    ]


@pytest.mark.parametrize("overlay", ["base", "overlays/metrics-auth"])
def test_who_reads_metrics_can_be_asked_where_an_overlay_says_so(
    admin: Caller, control_plane: ControlPlane, namespace: str, tmp_path: Path, overlay: str
) -> None:
    account = install(overlay, admin, control_plane, namespace, tmp_path)
    reviews = [
        manifest_of("authentication.k8s.io/v1", "TokenReview", token=account.token()),
        manifest_of(
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            user="anybody",
            nonResourceAttributes={"path": "/metrics", "verb": "get"},
        ),
    ]

    with Caller(control_plane, account.token()) as picker:
        statuses = [picker.status("POST", collection_of(each), each) for each in reviews]

    assert statuses == ([201, 201] if overlay == "overlays/metrics-auth" else [403, 403])


def manifest_of(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "spec": spec}


@pytest.fixture(params=["base", "overlays/ha"])
def overlay(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def picker(
    admin: Caller, control_plane: ControlPlane, namespace: str, tmp_path: Path, overlay: str
) -> Iterator[Caller]:
    """The Endpoint Picker's own service account, with the rights the overlay gives it."""
    account = install(overlay, admin, control_plane, namespace, tmp_path)
    with Caller(control_plane, account.token()) as caller:
        yield caller


def test_pods_and_the_pool_may_be_listed_and_watched(picker: Caller, namespace: str) -> None:
    for collection, query in ((PODS, {"labelSelector": "app=x"}), (POOLS, THIS_POOL)):
        path = collection.format(namespace=namespace)
        listed = picker.request("GET", path, limit="500", **query)
        watch = {"watch": "true", "timeoutSeconds": "1", "allowWatchBookmarks": "true"}
        version = {"resourceVersion": listed["metadata"]["resourceVersion"]}
        initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

        assert picker.status("GET", path, **watch, **version, **query) == 200
        assert picker.status("GET", path, **watch, **initial, **query) == 200


def test_objectives_may_be_listed_in_both_groups(picker: Caller, namespace: str) -> None:
    for group in GROUPS:
        path = f"/apis/{group}/v1alpha2/namespaces/{namespace}/inferenceobjectives"

        # 404 rather than 403: allowed, and not served by this API server.
        assert picker.status("GET", path) in (200, 404)


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", POOLS, {}),
        ("GET", POOLS, {"fieldSelector": "metadata.name=other"}),
        ("GET", f"{POOLS}/model-servers", {}),
        ("PATCH", f"{POOLS}/model-servers/status", {}),
        ("POST", PODS, {}),
        ("GET", f"{PODS}/any", {}),
        ("DELETE", f"{PODS}/any", {}),
        ("GET", SECRETS, {}),
        ("GET", LEASES, {}),
        ("GET", f"{LEASES}/other", {}),
        ("DELETE", f"{LEASES}/{THIS_LEASE}", {}),
        ("GET", "/api/v1/namespaces/default/pods", {}),
        ("GET", "/api/v1/pods", {}),
        ("GET", "/api/v1/nodes", {}),
    ],
)
def test_everything_else_is_forbidden(
    picker: Caller, namespace: str, method: str, path: str, query: dict[str, str]
) -> None:
    assert picker.status(method, path.format(namespace=namespace), {}, **query) == 403


def test_only_a_replica_that_may_lead_has_a_lease(
    picker: Caller, namespace: str, overlay: str
) -> None:
    collection = LEASES.format(namespace=namespace)
    name = THIS_LEASE.format(namespace=namespace)
    names = {"name": name, "namespace": namespace}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": names}
    allowed = overlay == "overlays/ha"

    assert picker.status("POST", collection, lease) == (201 if allowed else 403)
    assert picker.status("GET", f"{collection}/{name}") == (200 if allowed else 403)
    assert picker.status("PUT", f"{collection}/{name}", lease) == (422 if allowed else 403)
