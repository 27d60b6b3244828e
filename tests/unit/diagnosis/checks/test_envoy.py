from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epp.datastore.inference_pool import FailureMode
from epp.diagnosis.checks.envoy import look_at_gateway
from epp.diagnosis.doctor_case import Case, PickerReference
from epp.diagnosis.doctor_findings import Finding, Verdict
from epp.diagnosis.doctor_options import HostPort
from epp.diagnosis.port_look import PortLook, Speaks
from tests.fakes.doctor_cases import (
    bad,
    bootstrap,
    cluster,
    connection_manager,
    doctor_case,
    ext_proc,
    pool_with,
)

Document = dict[str, Any]
FAULT, WARNING = Verdict.FAULT, Verdict.WARNING
HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
TYPE = "type.googleapis.com/envoy.extensions."


async def judged(document: object, folder: Path, case: Case) -> list[Finding]:
    path = folder / "dump.json"
    path.write_text(json.dumps(document))
    asked = doctor_case(envoy_config_dump=path)
    case.asked = asked.asked
    return list(await look_at_gateway(case))


def fail_close() -> Case:
    case = doctor_case()
    case.pool = pool_with(FailureMode.FAIL_CLOSE)
    return case


def fail_open() -> Case:
    case = doctor_case()
    case.pool = pool_with(FailureMode.FAIL_OPEN)
    return case


@pytest.mark.parametrize("is_open", [False, True], ids=["FailClose", "FailOpen"])
async def test_nothing_is_wrong_with_our_own_bootstraps(tmp_path: Path, is_open: bool) -> None:
    case = fail_open() if is_open else fail_close()

    findings = await judged(bootstrap(fail_open=is_open), tmp_path, case)

    assert bad(findings) == []
    assert len(findings) >= 6


def modes(**changes: str) -> Callable[[Document], None]:
    return lambda document: ext_proc(document)["processing_mode"].update(changes)


def filter_with(**changes: Any) -> Callable[[Document], None]:
    return lambda document: ext_proc(document).update(changes)


def namespaces(direction: str, *names: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        options = ext_proc(document)["metadata_options"]
        options[f"{direction}_namespaces"]["untyped"] = list(names)

    return change


def cluster_with(name: str, **changes: Any) -> Callable[[Document], None]:
    return lambda document: cluster(document, name).update(changes)


def cluster_without(name: str, field: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        del cluster(document, name)[field]

    return change


def manager_without(field: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        del connection_manager(document)[field]

    return change


def route_with(**changes: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        (host,) = connection_manager(document)["route_config"]["virtual_hosts"]
        for route in host["routes"]:
            route["route"].update(changes)

    return change


def breakers(**limits: int) -> dict[str, Any]:
    return {"thresholds": [{"max_connections": 50000, "max_pending_requests": 50000, **limits}]}


def buffered(**changes: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        ext_proc(document)["processing_mode"]["request_body_mode"] = "BUFFERED"
        ext_proc(document).update(changes)

    return change


MISTAKES: dict[str, tuple[Callable[[Document], None], str, Verdict, str]] = {
    "no body": (modes(request_body_mode="NONE"), "gateway-body-modes", WARNING, "no request body"),
    "streamed body": (
        modes(request_body_mode="STREAMED"),
        "gateway-body-modes",
        WARNING,
        "before it sees the body",
    ),
    "cut body": (
        modes(request_body_mode="BUFFERED_PARTIAL"),
        "gateway-body-modes",
        WARNING,
        "the beginning only",
    ),
    "no headers": (
        modes(request_header_mode="SKIP"),
        "gateway-body-modes",
        FAULT,
        "can't set the destination",
    ),
    "no trailers": (
        modes(request_trailer_mode="SKIP"),
        "gateway-body-modes",
        FAULT,
        "without request trailers",
    ),
    "no response headers": (
        modes(response_header_mode="SKIP", response_body_mode="NONE"),
        "gateway-body-modes",
        WARNING,
        "kept from the picker",
    ),
    "whole answers": (
        modes(response_body_mode="BUFFERED"),
        "gateway-body-modes",
        WARNING,
        "no token reaches a client early",
    ),
    "a spectator": (
        filter_with(observability_mode=True),
        "gateway-body-modes",
        FAULT,
        "thrown away",
    ),
    "no pick in metadata": (
        namespaces("receiving"),
        "gateway-metadata",
        WARNING,
        "lacks envoy.lb: metadata of the pick is lost",
    ),
    "no subset": (
        namespaces("forwarding", "envoy.lb"),
        "gateway-metadata",
        WARNING,
        "lacks envoy.lb.subset_hint",
    ),
    "opens, pool closes": (
        filter_with(failure_mode_allow=True),
        "gateway-failure-mode",
        FAULT,
        "failure_mode_allow: true, but the pool says FailClose",
    ),
    "override of modes": (
        filter_with(allow_mode_override=True),
        "gateway-mode-override",
        WARNING,
        "no effect",
    ),
    "default message timeout": (
        buffered(message_timeout=None),
        "gateway-message-timeout",
        FAULT,
        "message_timeout 0.2 s is not above --decision-timeout 5 s",
    ),
    "short message timeout": (
        buffered(message_timeout="3s"),
        "gateway-message-timeout",
        WARNING,
        "message_timeout 3 s",
    ),
    "no original destination": (
        cluster_without("picked_endpoint", "original_dst_lb_config"),
        "gateway-destination",
        FAULT,
        "picked_endpoint is ORIGINAL_DST, but goes by no header",
    ),
    "another header": (
        cluster_with(
            "picked_endpoint",
            original_dst_lb_config={"use_http_header": True, "http_header_name": "x-other"},
        ),
        "gateway-destination",
        FAULT,
        "picked_endpoint goes by x-other",
    ),
    "client names destination": (
        manager_without("early_header_mutation_extensions"),
        "gateway-client-header",
        WARNING,
        "a client's own x-gateway-destination-endpoint",
    ),
    "default breaker": (
        cluster_without("epp", "circuit_breakers"),
        "gateway-circuit-breakers",
        FAULT,
        "epp: max_pending_requests 1024, max_requests 1024",
    ),
    "small breaker": (
        cluster_with("epp", circuit_breakers=breakers(max_requests=5000)),
        "gateway-circuit-breakers",
        WARNING,
        "epp: max_requests 5000",
    ),
    "breaker of model servers": (
        cluster_with("picked_endpoint", circuit_breakers=breakers(max_requests=100)),
        "gateway-circuit-breakers",
        WARNING,
        "picked_endpoint: max_requests 100",
    ),
    "no http2": (
        cluster_without("epp", "typed_extension_protocol_options"),
        "gateway-picker-cluster",
        FAULT,
        "not set to HTTP/2",
    ),
    "no health check": (
        cluster_without("epp", "health_checks"),
        "gateway-picker-cluster",
        WARNING,
        "no health check",
    ),
    "panic": (
        cluster_with("epp", common_lb_config={"healthy_panic_threshold": {"value": 50}}),
        "gateway-picker-cluster",
        WARNING,
        "not healthy are tried",
    ),
    "default panic": (
        cluster_without("epp", "common_lb_config"),
        "gateway-picker-cluster",
        WARNING,
        "not healthy are tried",
    ),
    "hangs": (
        cluster_with(
            "epp",
            typed_extension_protocol_options={
                HTTP: {"explicit_http_config": {"http2_protocol_options": {}}}
            },
        ),
        "gateway-picker-cluster",
        WARNING,
        "hang without end",
    ),
    "short routes": (route_with(timeout="15s"), "gateway-routes", WARNING, "cut after 15 s"),
    "retries": (
        route_with(retry_policy={"num_retries": 1}),
        "gateway-routes",
        WARNING,
        "sent twice",
    ),
    "cluster that is not there": (
        filter_with(grpc_service={"envoy_grpc": {"cluster_name": "nowhere"}}),
        "gateway",
        FAULT,
        "'nowhere', which does not exist",
    ),
    "no filter": (manager_without("http_filters"), "gateway", FAULT, "no ext_proc filter"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
async def test_each_mistake_is_found_and_nothing_else(
    tmp_path: Path, mistake: tuple[Callable[[Document], None], str, Verdict, str]
) -> None:
    change, check, verdict, words = mistake
    document = bootstrap()
    change(document)

    (found,) = bad(await judged(document, tmp_path, fail_close()))

    assert (found.check, found.verdict) == (check, verdict)
    assert words in found.found
    assert found.advice


async def test_a_pool_that_opens_behind_a_gateway_that_closes_is_a_fault(tmp_path: Path) -> None:
    findings = await judged(bootstrap(), tmp_path, fail_open())

    told = {(each.check, each.verdict) for each in bad(findings)}
    assert told == {("gateway-failure-mode", FAULT), ("gateway-destination", WARNING)}


async def test_full_duplex_opens_for_a_moment_only(tmp_path: Path) -> None:
    document = bootstrap(fail_open=True)
    modes(request_body_mode="FULL_DUPLEX_STREAMED", request_trailer_mode="SEND")(document)
    route_with(retry_policy=None)(document)

    (found,) = bad(await judged(document, tmp_path, fail_open()))

    assert found.check == "gateway-failure-mode"
    assert "until the first byte of a body" in found.found


@pytest.mark.parametrize(
    ("tls", "speaks", "is_fine"),
    [
        (True, Speaks.TLS, True),
        (False, Speaks.PLAINTEXT, True),
        (True, Speaks.PLAINTEXT, False),
        (False, Speaks.TLS, False),
    ],
)
async def test_gateway_and_picker_have_to_agree_on_tls(
    tmp_path: Path, tls: bool, speaks: Speaks, is_fine: bool
) -> None:
    case = fail_close()
    case.port = PortLook(address=HostPort("127.0.0.1", 9002), speaks=speaks)

    findings = bad(await judged(bootstrap(tls=tls), tmp_path, case))

    assert [each.check for each in findings] == ([] if is_fine else ["gateway-picker-tls"])


async def test_a_health_check_over_tls_needs_alpn(tmp_path: Path) -> None:
    document = bootstrap(tls=True)
    del cluster(document, "epp")["health_checks"][0]["tls_options"]

    (found,) = bad(await judged(document, tmp_path, fail_close()))

    assert (found.check, found.verdict) == ("gateway-picker-tls", FAULT)


def istio() -> Document:
    """As `istioctl proxy-config all -o json` has it: camelCase, a dummy filter, an override."""
    destination = {"key": "envoy.lb", "path": [{"key": "x-gateway-destination-endpoint"}]}
    picker = "outbound|9002||epp.models.svc.cluster.local"
    return {
        "configs": [
            {
                "@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump",
                "dynamicActiveClusters": [
                    {
                        "cluster": {
                            "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
                            **each,
                        }
                    }
                    for each in (
                        {"name": "PassthroughCluster", "type": "ORIGINAL_DST"},
                        {
                            "name": picker,
                            "type": "EDS",
                            "circuitBreakers": {
                                "thresholds": [
                                    {"maxRequests": 4294967295, "maxPendingRequests": 4294967295}
                                ]
                            },
                            "typedExtensionProtocolOptions": {
                                HTTP: {
                                    "explicitHttpConfig": {
                                        "http2ProtocolOptions": {
                                            "connectionKeepalive": {"interval": "5s"}
                                        }
                                    }
                                }
                            },
                        },
                        {
                            "name": "outbound|54321||pool.models.svc.cluster.local",
                            "type": "EDS",
                            "loadBalancingPolicy": {
                                "policies": [
                                    {
                                        "typedExtensionConfig": {
                                            "typedConfig": {
                                                "@type": TYPE + "load_balancing_policies."
                                                "override_host.v3.OverrideHost",
                                                "overrideHostSources": [{"metadata": destination}],
                                            }
                                        }
                                    }
                                ]
                            },
                        },
                    )
                ],
            },
            {
                "httpFilters": [
                    {
                        "typedConfig": {
                            "@type": TYPE + "filters.http.ext_proc.v3.ExternalProcessor",
                            "grpcService": {"envoyGrpc": {"clusterName": "dummy"}},
                            "processingMode": {"requestHeaderMode": "SKIP"},
                            "messageTimeout": "1000s",
                            "metadataOptions": {
                                "receivingNamespaces": {"untyped": ["envoy.lb"]},
                                "forwardingNamespaces": {
                                    "untyped": ["envoy.lb", "envoy.lb.subset_hint"]
                                },
                            },
                        }
                    }
                ],
                "typedPerFilterConfig": {
                    "envoy.filters.http.ext_proc": {
                        "@type": TYPE + "filters.http.ext_proc.v3.ExtProcPerRoute",
                        "overrides": {
                            "grpcService": {"envoyGrpc": {"clusterName": picker}},
                            "failureModeAllow": True,
                            "processingMode": {
                                "requestHeaderMode": "SEND",
                                "requestBodyMode": "FULL_DUPLEX_STREAMED",
                                "requestTrailerMode": "SEND",
                                "responseHeaderMode": "SEND",
                                "responseBodyMode": "FULL_DUPLEX_STREAMED",
                                "responseTrailerMode": "SEND",
                            },
                        },
                    }
                },
            },
        ]
    }


async def test_what_a_route_overrides_counts_and_the_dummy_filter_does_not(tmp_path: Path) -> None:
    case = fail_open()
    case.reference = PickerReference(kind="Service", name="epp", port=9002)

    findings = await judged(istio(), tmp_path, case)

    told = {(each.check, each.verdict) for each in bad(findings)}
    assert told == {
        ("gateway-failure-mode", WARNING),  # opens until the first byte
        ("gateway-circuit-breakers", WARNING),
        ("gateway-picker-cluster", WARNING),  # no health check
    }
    assert "dummy" not in str(findings)


async def test_metadata_that_is_dropped_is_a_fault_where_nothing_else_tells_the_pick(
    tmp_path: Path,
) -> None:
    text = json.dumps(istio()).replace('{"untyped": ["envoy.lb"]}', '{"untyped": ["other"]}')

    findings = await judged(json.loads(text), tmp_path, fail_open())

    (found,) = [each for each in bad(findings) if each.check == "gateway-metadata"]
    assert found.verdict is FAULT
    assert "and the cluster reads nothing else" in found.found


async def test_override_host_can_not_close(tmp_path: Path) -> None:
    findings = await judged(istio(), tmp_path, fail_close())

    (found,) = [each for each in bad(findings) if each.check == "gateway-destination"]
    assert "override_host sends requests without a pick to any pod" in found.found


async def test_without_an_envoy_the_check_is_skipped() -> None:
    (found,) = await look_at_gateway(doctor_case())

    assert found.verdict is Verdict.SKIPPED


@pytest.mark.parametrize("text", ["", "[]", "hello", "{", "a: [b", "a: 1\n---\nb: 2", "\0"])
async def test_what_is_no_configuration_is_a_fault_that_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dump"
    path.write_text(text)

    (found,) = await look_at_gateway(doctor_case(envoy_config_dump=path))

    assert (found.check, found.verdict) == ("gateway", FAULT)
    assert "no configuration of Envoy" in found.found
