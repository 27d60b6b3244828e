from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.diagnosis.envoy_dump import parse_dump
from epp.framework.errors import ConfigError
from epp.standalone.envoy_clusters import Address
from epp.standalone.envoy_config import EnvoySettings, envoy_bootstrap

NAMES = st.sampled_from(
    ["name", "type", "@type", "cluster", "clusters", "route", "match", "overrides", "typedConfig"]
)
TYPES = st.sampled_from(
    [
        "x/envoy.config.cluster.v3.Cluster",
        "x/ext_proc.v3.ExternalProcessor",
        "x/ext_proc.v3.ExtProcPerRoute",
    ]
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | TYPES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=30,
)


@given(DOCUMENTS)
def test_any_document_is_read_or_refused(document: Any) -> None:
    with contextlib.suppress(ConfigError):
        parse_dump(json.dumps(document).encode(), "it")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(ConfigError):
        parse_dump(content, "it")


def test_field_names_of_both_spellings_mean_the_same() -> None:
    content = b'{"clusters": [{"name": "a", "clusterType": {"typedConfig": {"x.Y": 1}}}]}'

    dump = parse_dump(content, "it")

    assert dump.clusters["a"] == {"name": "a", "cluster_type": {"typed_config": {"x.Y": 1}}}


def test_what_is_nested_without_end_is_refused() -> None:
    content = b'{"a":' * 900 + b"1" + b"}" * 900

    with pytest.raises(ConfigError, match="no configuration of Envoy"):
        parse_dump(content, "it")


def test_what_is_long_has_to_be_json() -> None:
    with pytest.raises(ConfigError, match="no configuration of Envoy"):
        parse_dump(b"clusters: [" + b"a, " * 2**18 + b"]", "it")


def test_filters_of_upgrades_are_not_those_of_requests() -> None:
    settings = EnvoySettings(
        listener=Address("127.0.0.1", 8080), pickers=(Address("127.0.0.1", 9002),), fail_open=False
    )

    dump = parse_dump(json.dumps(envoy_bootstrap(settings)).encode(), "it")

    (each,) = dump.filters
    assert each["processing_mode"]["request_body_mode"] == "FULL_DUPLEX_STREAMED"
