"""Values of the chart that are worth a look: what a release may be, and how operators write it."""

from __future__ import annotations

from typing import Any

import yaml

from epp.config.built_in import BUILT_IN
from tests.helm.chart import CHART, Values

MATCH = {"matchLabels": {"app": "llama"}}
CUSTOM = (CHART.parents[1] / "examples/session-affinity.yaml").read_text()

TWO_SCORERS = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
  - pluginRef: kv-cache-utilization-scorer
"""


def router(**values: Any) -> Values:
    """Values with what is required."""
    return {"router": {"modelServers": MATCH, **values}}


MATRIX = {
    "defaults": router(),
    "several replicas, one leads": router(epp={"replicas": 3}),
    "several replicas, all serve": router(
        epp={"replicas": 3, "flags": {"ha-enable-leader-election": False}}
    ),
    "one replica that leads": router(epp={"flags": {"ha-enable-leader-election": True}}),
    "a leader by another word": router(epp={"flags": {"ha-enable-leader-election": "1"}}),
    "events": router(epp={"flags": {"emit-events": True}}),
    "no events": router(epp={"flags": {"emit-events": "f"}}),
    "no pool": router(inferencePool={"create": False}),
    "no pool, several replicas": router(epp={"replicas": 2}, inferencePool={"create": False}),
    "a pool there is": {"router": {"inferencePool": {"create": False, "name": "shared"}}},
    "another name for the pool": router(inferencePool={"name": "other"}),
    "FailClose": router(inferencePool={"failureMode": "FailClose"}),
    "flags of all kinds": router(
        epp={
            "flags": {
                "v": 4,
                "max-buffered-bytes": 2147483648,
                "max-loop-lag": "500ms",
                "decision-timeout": "2s",
                "health-checking": True,
                "request-log": True,
                "tls-cipher-suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
            }
        }
    ),
    "plaintext": router(epp={"flags": {"secure-serving": False}}),
    "Istio": {
        "provider": {
            "name": "istio",
            "istio": {
                "destinationRule": {
                    "trafficPolicy": {"connectionPool": {"http": {"http2MaxRequests": 256000}}}
                }
            },
        },
        "httpRoute": {"create": True, "inferenceGatewayNamespace": "gateways"},
        **router(),
    },
    "Istio in plaintext": {
        "provider": {"name": "istio"},
        **router(epp={"flags": {"secure-serving": False}}),
    },
    "GKE": {
        "provider": {"name": "gke"},
        "httpRoute": {"create": True},
        **router(epp={"grpcHealthPort": 9103}, monitoring={"prometheus": {"enabled": True}}),
    },
    "a route for some requests": {
        "httpRoute": {"create": True, "headerMatches": {"x-tier": "gold"}, "baseModel": "llama"},
        **router(),
    },
    "a route to a pool there is": {
        "httpRoute": {"create": True, "requestTimeout": "1h30m"},
        "router": {"inferencePool": {"create": False, "name": "shared"}},
    },
    "Prometheus": router(
        monitoring={"prometheus": {"enabled": True, "extraLabels": {"team": "a"}}}
    ),
    "Google's Prometheus": router(
        monitoring={
            "provider": {"name": "gmp", "gmp": {"autopilot": True}},
            "prometheus": {"enabled": True},
        }
    ),
    "scaled by load": router(
        epp={
            "autoscaling": {
                "enabled": True,
                "maxReplicas": 8,
                "targetMemoryUtilizationPercentage": 75,
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}},
            }
        }
    ),
    "some parsers": router(epp={"parsers": ["openai-parser", "passthrough-parser"]}),
    "requests that can't be read": router(epp={"pluginsConfigFile": "payload-agnostic.yaml"}),
    "triton": router(modelServers={**MATCH, "type": "triton"}),
    "more ports": {
        **router(
            metricsPort=9190,
            extraServicePorts=[{"name": "debug", "port": 9191, "targetPort": "debug"}],
            epp={"extraContainerPorts": [{"name": "debug", "containerPort": 9191}]},
        ),
    },
    "traces": router(
        epp={"networkPolicy": {"create": True}},
        tracing={"enabled": True, "otelExporterEndpoint": "http://collector.obs:4318"},
    ),
    "a certificate": router(epp={"tls": {"secretName": "epp-tls"}}),
    "other ports": router(epp={"extProcPort": 9102, "grpcHealthPort": 9103}),
    "a configuration": router(epp={"pluginsConfig": yaml.safe_load(BUILT_IN)}),
    "a configuration as text": router(
        epp={
            "pluginsConfigFile": "sessions.yaml",
            "pluginsCustomConfig": {"sessions.yaml": CUSTOM},
            "flags": {"allow-experimental-plugins": True},
        }
    ),
    "another engine": router(
        modelServers={**MATCH, "type": "sglang", "targetPorts": [{"number": 30000}]},
        epp={"metricsDataSource": {"scheme": "https", "path": "/other"}},
    ),
    "where it runs": router(
        imagePullSecrets=[{"name": "registry"}],
        epp={
            "image": {"registry": "registry.example.org", "tag": "v1", "pullPolicy": "Always"},
            "affinity": {"podAntiAffinity": {}},
            "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
            "podAnnotations": {"prometheus.io/scrape": "true"},
            "env": [{"name": "GOMAXPROCS", "value": "2"}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
            "networkPolicy": {"create": True},
            "podDisruptionBudget": {"create": False},
            "deploymentStrategy": {"type": "Recreate"},
        },
    ),
    "metrics for all": router(monitoring={"prometheus": {"auth": {"enabled": False}}}),
    "rights from elsewhere": router(
        rbac={"create": False}, serviceAccount={"create": False, "name": "default"}
    ),
    "objectives": router(inferenceObjectives=[{"name": "batch", "priority": -1}]),
    # As in the manual of the reference's charts.
    "an example of the reference": router(
        epp={
            "replicas": 3,
            "image": {
                "registry": "my-registry.io",
                "repository": "my-epp-dev",
                "tag": "v1.2.3",
                "pullPolicy": "IfNotPresent",
            },
            "extProcPort": 9002,
            "flags": {"v": 3, "ha-enable-leader-election": True},
            "env": [
                {"name": "FEATURE_FLAG_ENABLED", "value": "true"},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            "resources": {
                "requests": {"cpu": "8", "memory": "16Gi"},
                "limits": {"memory": "32Gi"},
            },
            "pluginsConfigFile": "custom-plugins.yaml",
            "pluginsCustomConfig": {"custom-plugins.yaml": TWO_SCORERS},
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
            ],
            "volumes": [{"name": "model-volume", "emptyDir": {}}],
            "volumeMounts": [{"name": "model-volume", "mountPath": "/models"}],
        },
        inferencePool={"create": True, "failureMode": "FailClose"},
        inferenceObjectives=[
            {"name": "high-priority", "priority": 100},
            {"name": "background-batch", "priority": 10},
        ],
    ),
    # The reference's own defaults, and what of them means nothing here.
    "values of the reference": {
        "provider": {
            "name": "none",
            "istio": {"destinationRule": {"host": "", "trafficPolicy": {}}},
            "gke": {"preferredBackends": {"enabled": False, "balancingMode": "RATE"}},
        },
        "httpRoute": {
            "create": False,
            "inferenceGatewayName": "inference-gateway",
            "inferenceGatewayNamespace": "",
            "requestTimeout": "300s",
        },
        **router(
            clusterDomain="cluster.local",
            extraServicePorts=[],
            epp={
                "parsers": [],
                "resources": {
                    "requests": {"cpu": "8", "memory": "8Gi"},
                    "limits": {"memory": "16Gi"},
                },
                "extraContainerPorts": [],
                "autoscaling": {
                    "enabled": False,
                    "minReplicas": 1,
                    "maxReplicas": 5,
                    "targetCPUUtilizationPercentage": 80,
                },
                "terminationGracePeriodSeconds": 130,
            },
            proxy={"enabled": False},
            tokenizer={"enabled": False, "modelName": ""},
            latencyPredictor={"enabled": False, "predictionServers": {"count": 1}},
            monitoring={"interval": "10s", "provider": {"name": "", "gmp": {"autopilot": False}}},
            tracing={"enabled": False},
        ),
    },
}
