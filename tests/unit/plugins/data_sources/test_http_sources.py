"""What is asked of endpoints over HTTP."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from epp.framework.data_layer import HttpTarget, PollingSource
from epp.framework.endpoint import Endpoint
from epp.framework.plugin import construct, parameters_of
from epp.plugins.data_sources.dcgm import DcgmDataSource
from epp.plugins.data_sources.metrics import MetricsDataSource, MulticlusterMetricsDataSource
from epp.plugins.data_sources.models import ModelsDataSource
from epp.testing import FakeContext, endpoint_of

LABEL = "llm-d.ai/engine-type"
ALL = (MetricsDataSource, MulticlusterMetricsDataSource, ModelsDataSource, DcgmDataSource)


def source(kind: type[PollingSource], **values: Any) -> PollingSource:
    schema = parameters_of(kind)
    assert schema is not None
    parameters = schema.model_validate_json(json.dumps(values))
    made = construct(kind, parameters, FakeContext(kind.type))
    assert isinstance(made, kind)
    return made


def target(kind: type[PollingSource], endpoint: Endpoint, **values: Any) -> HttpTarget:
    return source(kind, **values).target(endpoint)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (MetricsDataSource, HttpTarget(host="10.0.0.5", port=8001, path="/metrics")),
        (
            MulticlusterMetricsDataSource,
            HttpTarget(
                scheme="https",
                host="10.0.0.5",
                port=8001,
                path="/metrics",
                insecure_skip_verify=False,
            ),
        ),
        (ModelsDataSource, HttpTarget(host="10.0.0.5", port=8001, path="/v1/models")),
        (DcgmDataSource, HttpTarget(host="10.0.0.5", port=9400, path="/metrics")),
    ],
)
def test_each_source_has_its_page(kind: type[PollingSource], expected: HttpTarget) -> None:
    endpoint = endpoint_of(address="10.0.0.5:8001")

    assert target(kind, endpoint) == expected
    assert source(kind).interval_seconds is None


def test_all_parameters_reach_the_target() -> None:
    made = source(
        MetricsDataSource,
        scheme="https",
        path="/m",
        port=9000,
        insecureSkipVerify=False,
        caCertPath="/ca",
        clientCertPath="/c",
        clientKeyPath="/k",
        interval="250ms",
    )

    assert made.target(endpoint_of(address="10.0.0.5:8001")) == HttpTarget(
        scheme="https",
        host="10.0.0.5",
        port=9000,
        path="/m",
        insecure_skip_verify=False,
        ca_cert_path=Path("/ca"),
        client_cert_path=Path("/c"),
        client_key_path=Path("/k"),
    )
    assert made.interval_seconds == 0.25


def test_certificates_to_trust_are_ignored_while_none_is_verified() -> None:
    with capture_logs() as logs:
        found = target(MetricsDataSource, endpoint_of(), caCertPath="/ca")

    assert found.ca_cert_path is None
    assert [line["plugin"] for line in logs] == ["metrics-data-source"]


def test_empty_paths_of_certificates_are_none_as_in_the_reference() -> None:
    found = target(
        MetricsDataSource,
        endpoint_of(),
        insecureSkipVerify=False,
        caCertPath="",
        clientCertPath="",
        clientKeyPath="",
    )

    assert (found.ca_cert_path, found.client_cert_path, found.client_key_path) == (None,) * 3


@pytest.mark.parametrize(
    ("values", "engine", "path"),
    [
        ({}, "vllm", "/metrics"),
        ({}, "trtllm-serve", "/prometheus/metrics"),
        ({"path": "/m"}, "trtllm-serve", "/m"),
        ({"enginePaths": {"mine": "/mine"}}, "mine", "/mine"),
        ({"enginePaths": {"mine": "/mine"}}, "trtllm-serve", "/metrics"),
        ({"enginePaths": {"mine": "/mine"}, "path": "/m"}, "mine", "/mine"),
        ({"enginePaths": {"mine": "/mine"}, "path": "/m"}, "other", "/m"),
    ],
)
def test_engines_may_have_their_pages_elsewhere(
    values: dict[str, Any], engine: str, path: str
) -> None:
    for label in (LABEL, "inference.networking.k8s.io/engine-type"):
        endpoint = endpoint_of(labels={label: engine})

        assert target(MetricsDataSource, endpoint, **values).path == path


def test_the_port_of_other_clusters_is_ignored() -> None:
    endpoint = endpoint_of(address="10.0.0.5:8001")

    assert target(MulticlusterMetricsDataSource, endpoint, port=9000).port == 8001


@pytest.mark.parametrize(
    ("node", "use", "host"),
    [("10.9.9.9", True, "10.9.9.9"), ("10.9.9.9", False, "10.0.0.1"), ("", True, "10.0.0.1")],
)
def test_the_gpu_exporter_of_the_node_may_be_asked(node: str, use: bool, host: str) -> None:
    endpoint = replace(endpoint_of(), node_address=node)

    assert target(DcgmDataSource, endpoint, useNodeAddress=use).host == host


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scheme": "ftp"}, "'http' or 'https'"),
        ({"path": "metrics"}, "'metrics' is not a path; allowed"),
        ({"path": "/a b"}, "is not a path"),
        ({"path": "/a\r\nHost: b"}, "is not a path"),
        ({"interval": "-1s"}, "'-1s' is not a duration; allowed"),
        ({"interval": "soon"}, "'soon' is not a duration; allowed"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_mistakes_are_refused(
    kind: type[PollingSource], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        source(kind, **values)


@pytest.mark.parametrize("field", ["clientCertPath", "clientKeyPath"])
@pytest.mark.parametrize("kind", ALL[:3])
def test_a_certificate_and_its_key_go_together(kind: type[PollingSource], field: str) -> None:
    with pytest.raises(ValidationError, match="both or neither"):
        source(kind, **{field: "/x"})


def test_an_interval_of_zero_is_none() -> None:
    assert source(MetricsDataSource, interval="0").interval_seconds is None


@pytest.mark.parametrize(
    ("kind", "extractor"),
    [
        (MetricsDataSource, "core-metrics-extractor"),
        (MulticlusterMetricsDataSource, "multicluster-metrics-extractor"),
        (ModelsDataSource, "models-data-extractor"),
        (DcgmDataSource, "dcgm-extractor"),
    ],
)
def test_each_source_names_its_usual_extractor(kind: type[PollingSource], extractor: str) -> None:
    assert kind.default_extractor == extractor
