"""Values of the chart that are worth a look: what a release may be, and how operators write it."""

from __future__ import annotations

from typing import Any

import yaml

from epp.config.built_in import BUILT_IN
from tests.helm.chart import CHART, Values

MATCH = {"matchLabels": {"app": "llama"}}
CUSTOM = (CHART.parents[1] / "examples/session-affinity.yaml").read_text()


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
    # The reference's own defaults, and what of them means nothing here.
    "values of the reference": {
        "provider": {"name": "none", "istio": {"destinationRule": {"host": ""}}},
        "httpRoute": {"create": False, "requestTimeout": "300s"},
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
                "autoscaling": {"enabled": False, "minReplicas": 1},
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
