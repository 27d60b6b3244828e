"""The rules of the API server, which tests/slow/test_pool_definition.py asks for its opinion."""

from __future__ import annotations

import pytest

from epp.datastore.inference_pool import parse_inference_pool
from epp.framework.errors import ConfigError
from tests.fakes.pool_manifests import INVALID, VALID, Change, manifest_with, name_of


@pytest.mark.parametrize("change", VALID, ids=name_of)
def test_what_the_api_server_accepts_is_accepted(change: Change) -> None:
    parse_inference_pool(manifest_with(change), default_namespace="default")


@pytest.mark.parametrize("change", INVALID, ids=name_of)
def test_what_the_api_server_refuses_is_refused(change: Change) -> None:
    with pytest.raises(ConfigError):
        parse_inference_pool(manifest_with(change), default_namespace="default")
