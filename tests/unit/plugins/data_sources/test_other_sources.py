"""Sources that ask nobody: they say what to follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from epp.plugins.data_sources.endpoint_notification import EndpointNotificationSource
from epp.plugins.data_sources.file_discovery import FileDiscovery, FileDiscoveryParameters
from epp.plugins.data_sources.k8s_notification import (
    K8sNotificationSource,
    K8sNotificationSourceParameters,
)
from epp.testing import built


def test_a_kind_of_kubernetes_is_named() -> None:
    source = built(K8sNotificationSource, group="apps", version="v1", kind="Deployment")

    assert (source.group, source.version, source.kind) == ("apps", "v1", "Deployment")


def test_a_core_kind_has_no_group() -> None:
    assert built(K8sNotificationSource, version="v1", kind="Pod").group == ""


@pytest.mark.parametrize(
    "values", [{}, {"version": "v1"}, {"kind": "Pod"}, {"version": "", "kind": "Pod"}]
)
def test_version_and_kind_are_needed(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        K8sNotificationSourceParameters.model_validate_json(json.dumps(values))


def test_endpoints_may_be_followed() -> None:
    assert built(EndpointNotificationSource).name == "endpoint-notification-source"


@pytest.mark.parametrize("watch", [False, True])
def test_a_file_of_endpoints_is_named(watch: bool) -> None:
    text = json.dumps({"path": "/etc/endpoints.yaml", "watchFile": watch})

    discovery = FileDiscovery(FileDiscoveryParameters.model_validate_json(text))

    assert (discovery.path, discovery.watch_file) == (Path("/etc/endpoints.yaml"), watch)


@pytest.mark.parametrize(
    "values", [{}, {"path": ""}, {"path": "a\0b"}, {"path": "/x", "watch": True}]
)
def test_a_file_is_needed(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FileDiscoveryParameters.model_validate_json(json.dumps(values))
