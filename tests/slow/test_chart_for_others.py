"""What the chart of config/helm renders for gateways, for Prometheus and for traces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helm.chart import rendered_chart
from tests.helm.values import MATRIX
from tests.kube.installation import Manifests, environment_of, flags_of, the_one

pytestmark = pytest.mark.slow

NAMESPACE = "models"


def chart(values: str) -> Manifests:
    """One set of values, rendered."""
    return rendered_chart("llama", NAMESPACE, MATRIX[values])


def test_a_monitor_finds_port_and_token() -> None:
    manifests = chart("Prometheus")
    monitor, service, secret = (
        the_one(manifests, kind) for kind in ("ServiceMonitor", "Service", "Secret")
    )

    (endpoint,) = monitor["spec"]["endpoints"]
    labels = service["metadata"]["labels"]
    assert endpoint["port"] in {each["name"] for each in service["spec"]["ports"]}
    assert endpoint["authorization"]["credentials"]["name"] == secret["metadata"]["name"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["metadata"]["labels"]["team"] == "a"
    reader = secret["metadata"]["annotations"]["kubernetes.io/service-account.name"]
    assert reader in {
        each["metadata"]["name"] for each in manifests if each["kind"] == "ServiceAccount"
    }


@pytest.mark.parametrize(
    ("values", "collectors"), [("Google's Prometheus", "gke-gmp-system"), ("GKE", "gmp-system")]
)
def test_googles_collector_finds_port_and_token_and_may_read_it(
    values: str, collectors: str
) -> None:
    manifests = chart(values)
    monitoring, secret = the_one(manifests, "PodMonitoring"), the_one(manifests, "Secret")
    template = the_one(manifests, "Deployment")["spec"]["template"]
    (token,) = [
        each
        for each in manifests
        if each["kind"] == "Role" and each["rules"][0]["resources"] == ["secrets"]
    ]
    (binding,) = [
        each
        for each in manifests
        if each["kind"] == "RoleBinding" and each["roleRef"]["name"] == token["metadata"]["name"]
    ]

    (endpoint,) = monitoring["spec"]["endpoints"]
    (container,) = template["spec"]["containers"]
    assert endpoint["port"] in {each["name"] for each in container["ports"]}
    assert endpoint["authorization"]["credentials"]["secret"] == {
        "name": secret["metadata"]["name"],
        "key": "token",
    }
    selected = monitoring["spec"]["selector"]["matchLabels"]
    assert selected.items() <= template["metadata"]["labels"].items()
    assert token["rules"][0]["resourceNames"] == [secret["metadata"]["name"]]
    (collector,) = binding["subjects"]
    assert (collector["name"], collector["namespace"]) == ("collector", collectors)


SKIP_VERIFY = {"mode": "SIMPLE", "insecureSkipVerify": True}


@pytest.mark.parametrize(
    ("values", "policy"),
    [
        (
            "Istio",
            {"connectionPool": {"http": {"http2MaxRequests": 256000}}, "tls": SKIP_VERIFY},
        ),
        ("Istio in plaintext", None),
    ],
)
def test_istio_is_told_whether_the_picker_speaks_tls(
    values: str, policy: dict[str, Any] | None
) -> None:
    rule = the_one(chart(values), "DestinationRule")["spec"]

    assert rule["host"] == "llama-epp.models.svc.cluster.local"
    assert rule.get("trafficPolicy") == policy


def test_gke_waits_for_long_answers_and_looks_at_the_right_ports() -> None:
    manifests = chart("GKE")
    backend = the_one(manifests, "GCPBackendPolicy")["spec"]
    checks = {
        each["spec"]["targetRef"]["kind"]: each["spec"]
        for each in manifests
        if each["kind"] == "HealthCheckPolicy"
    }
    pool = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "llama"}

    assert backend == {
        "targetRef": pool,
        "default": {"timeoutSec": 300, "logging": {"enabled": True}},
    }
    assert checks["InferencePool"] == {
        "targetRef": pool,
        "default": {
            "config": {"type": "HTTP", "httpHealthCheck": {"requestPath": "/health", "port": 8000}}
        },
    }
    assert checks["Service"] == {
        "targetRef": {"group": "", "kind": "Service", "name": "llama-epp"},
        "default": {"config": {"type": "GRPC", "grpcHealthCheck": {"port": 9103}}},
    }
    assert "timeouts" not in the_one(manifests, "HTTPRoute")["spec"]["rules"][0]


@pytest.mark.parametrize(
    ("values", "pool", "headers", "timeout"),
    [
        ("Istio", "llama", None, "300s"),
        ("a route to a pool there is", "shared", None, "1h30m"),
        (
            "a route for some requests",
            "llama",
            {"x-tier": "gold", "X-Gateway-Base-Model-Name": "llama"},
            "300s",
        ),
    ],
)
def test_a_route_leads_to_the_pool(
    values: str,
    pool: str,
    headers: dict[str, str] | None,
    timeout: str,
) -> None:
    spec = the_one(chart(values), "HTTPRoute")["spec"]
    (rule,) = spec["rules"]
    (match,) = rule["matches"]
    (backend,) = rule["backendRefs"]
    (gateway,) = spec["parentRefs"]

    assert (gateway["name"], gateway.get("namespace")) == (
        "inference-gateway",
        "gateways" if values == "Istio" else None,
    )
    assert (backend["kind"], backend["name"]) == ("InferencePool", pool)
    assert rule["timeouts"] == {"request": timeout}
    told = {each["name"]: each["value"] for each in match.get("headers", ())}
    assert told == (headers or {})


def test_traces_go_where_the_values_say_and_may_leave_the_pod() -> None:
    manifests = chart("traces")
    environment = environment_of(manifests, NAMESPACE)
    egress = the_one(manifests, "NetworkPolicy")["spec"]["egress"]

    assert environment["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector.obs:4318"
    assert environment["OTEL_TRACES_SAMPLER_ARG"] == "0.1"
    assert "k8s.pod.name=$(POD_NAME)" in environment["OTEL_RESOURCE_ATTRIBUTES"]
    assert [{"port": 4318}] in [each.get("ports") for each in egress]
    assert "--tracing=true" in flags_of(manifests)
