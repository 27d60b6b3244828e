"""Values that the chart of config/helm refuses, and what it says of them."""

from __future__ import annotations

import pytest

from tests.helm.chart import Refused, Values, rendered_chart
from tests.helm.values import MATCH, router
from tests.kube.installation import flags_of

pytestmark = pytest.mark.slow

WITHOUT_POOL = {"create": False}
REFUSED = {
    "router.modelServers.matchLabels": {"router": {}},
    "'replica'": router(epp={"replica": 2}),
    "inferenceExtension: is of an older chart; here it is router.epp": {
        **router(),
        "inferenceExtension": {"replicas": 1},
    },
    "experimentalHttpRoute: is of an older chart; here it is httpRoute": {
        **router(),
        "experimentalHttpRoute": {"enabled": True},
    },
    "/provider/name": {**router(), "provider": {"name": "isto"}},
    "/httpRoute/requestTimeout": {**router(), "httpRoute": {"requestTimeout": "5 minutes"}},
    "httpRoute.create: is about an InferencePool": {
        **router(inferencePool=WITHOUT_POOL),
        "httpRoute": {"create": True},
    },
    "provider.name: gke: is about an InferencePool": {
        **router(inferencePool=WITHOUT_POOL),
        "provider": {"name": "gke"},
    },
    "router.inferenceObjectives: is about an InferencePool": router(
        inferencePool=WITHOUT_POOL, inferenceObjectives=[{"name": "a", "priority": 1}]
    ),
    "router.epp.flags.emit-events: is about an InferencePool": router(
        inferencePool=WITHOUT_POOL, epp={"flags": {"emit-events": True}}
    ),
    "provider.gke.preferredBackends.enabled: no StatefulSet": {
        **router(),
        "provider": {"name": "gke", "gke": {"preferredBackends": {"enabled": True}}},
    },
    "'/router/epp/flags': additional properties 'decision-timout' not allowed": router(
        epp={"flags": {"decision-timout": "2s"}}
    ),
    "'lora-info-metric' not allowed": router(epp={"flags": {"lora-info-metric": "a"}}),
    "/router/epp/flags/v": router(epp={"flags": {"v": {"a": 1}}}),
    "router.inferencePool.name": router(epp={"flags": {"pool-name": "x"}}),
    "router.metricsPort": router(epp={"flags": {"metrics-port": 1}}),
    "router.modelServers.protocol: grpc: no parser reads gRPC": router(
        modelServers={**MATCH, "protocol": "grpc"}
    ),
    "router.epp.parsers: vllmgrpc-parser is none of openai-parser": router(
        epp={"parsers": ["vllmgrpc-parser"]}
    ),
    "router.proxy.enabled: config/overlays/standalone-sidecar": router(
        proxy={"enabled": True, "proxyType": "agentgateway"}
    ),
    "router.tokenizer.enabled: nothing here": router(tokenizer={"enabled": True}),
    "router.latencyPredictor.enabled: predicted": router(latencyPredictor={"enabled": True}),
    "router.epp.extProcPort and router.metricsPort are both 9090": router(
        epp={"extProcPort": 9090}
    ),
    "router.epp.grpcHealthPort and router.metricsPort are both 9003": router(metricsPort=9003),
    "router.epp.extProcPort and router.epp.grpcHealthPort are both 9003": router(
        epp={"extProcPort": 9003}
    ),
    "router.metricsPort and router.epp.flags.admin-port are both 9091": router(metricsPort=9091),
    "router.epp.grpcHealthPort and router.epp.flags.admin-port are both 9003": router(
        epp={"flags": {"admin-port": "9003"}}
    ),
    "/router/inferencePool/failureMode": router(inferencePool={"failureMode": "FailClosed"}),
    "typo.yaml is none of default-plugins.yaml, payload-agnostic.yaml": router(
        epp={"pluginsConfigFile": "typo.yaml"}
    ),
    "both have default-plugins.yaml": router(
        epp={
            "pluginsConfig": {"plugins": []},
            "pluginsCustomConfig": {"default-plugins.yaml": "plugins: []"},
        }
    ),
    "router.epp.autoscaling.enabled: replicas that wait for a leader": router(
        epp={"autoscaling": {"enabled": True}, "flags": {"ha-enable-leader-election": True}}
    ),
}


@pytest.mark.parametrize(("named", "refused"), REFUSED.items(), ids=REFUSED)
def test_what_can_not_be_meant_is_refused_by_name(named: str, refused: Values) -> None:
    with pytest.raises(Refused) as caught:
        rendered_chart("llama", "models", refused)

    assert named in str(caught.value)


def test_flags_of_the_reference_that_have_no_effect_here_are_not_refused() -> None:
    flags = {"zap-devel": True, "zap-encoder": "json", "enable-pprof": False, "v": 4}

    manifests = rendered_chart("llama", "models", router(epp={"flags": flags}))

    assert {"--zap-devel=true", "--v=4"} <= set(flags_of(manifests))
