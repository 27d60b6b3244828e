from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from epp.datastore.inference_pool import (
    AppProtocol,
    FailureMode,
    InferencePool,
    parse_inference_pool,
    unknown_pool_fields,
)
from epp.framework.errors import ConfigError
from tests.fakes.pool_manifests import DELETED, changed

MANIFEST = """
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata:
  name: llama
  namespace: lab
  labels: {team: a}
spec:
  selector:
    matchLabels: {app: llama}
  targetPorts:
  - number: 8000
  - number: 8001
  appProtocol: kubernetes.io/h2c
  endpointPickerRef:
    group: ""
    kind: Service
    name: llama-epp
    port: {number: 9002}
    failureMode: FailOpen
status: {parents: []}
"""

LABEL_RULE = "a string (quoted if need be) of at most 63 letters, digits, '-', '_' and '.'"


def manifest_with(path: str = "", value: object = DELETED) -> dict[str, Any]:
    return changed(yaml.safe_load(MANIFEST), path, value)


def parsed(document: object) -> InferencePool:
    return parse_inference_pool(document, default_namespace="elsewhere")


def error_lines(document: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parsed(document)
    heading, *lines = str(caught.value).splitlines()
    assert heading == "InferencePool is not valid:"
    return [line.removeprefix("  ") for line in lines]


def test_a_full_manifest_is_read() -> None:
    assert parsed(manifest_with()) == InferencePool(
        name="llama",
        namespace="lab",
        match_labels={"app": "llama"},
        target_ports=(8000, 8001),
        app_protocol=AppProtocol.H2C,
        failure_mode=FailureMode.FAIL_OPEN,
    )


@pytest.mark.parametrize(
    ("path", "attribute", "expected"),
    [
        ("metadata/namespace", "namespace", "elsewhere"),
        ("spec/appProtocol", "app_protocol", AppProtocol.HTTP),
        ("spec/endpointPickerRef/failureMode", "failure_mode", FailureMode.FAIL_CLOSE),
        ("spec/endpointPickerRef", "failure_mode", FailureMode.FAIL_CLOSE),
    ],
)
@pytest.mark.parametrize("value", [DELETED, None], ids=["absent", "null"])
def test_what_is_absent_or_null_has_its_default(
    path: str, attribute: str, expected: object, value: object
) -> None:
    pool = parsed(manifest_with(path, value))

    assert getattr(pool, attribute) == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec/selector/matchLabels", {f"key-{n}": "" for n in range(64)}),
        ("spec/selector/matchLabels/app", "x" * 63),
        ("spec/selector/matchLabels", {"keys are !not! checked": "A.b-c_d"}),
        ("spec/targetPorts", [{"number": n} for n in (1, 2, 3, 4, 5, 6, 7, 65535)]),
        ("spec/endpointPickerRef", {"name": "x", "kind": "Picker", "group": "a.example.org"}),
        ("spec/endpointPickerRef/name", "x" * 253),
        ("metadata/name", "a.b-c.d"),
    ],
)
def test_what_the_api_server_accepts_is_accepted(path: str, value: object) -> None:
    parsed(manifest_with(path, value))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "apiVersion",
            "inference.networking.k8s.io/v2",
            'apiVersion: "inference.networking.k8s.io/v2" is not allowed;'
            " inference.networking.k8s.io/v1",
        ),
        ("apiVersion", DELETED, "apiVersion: required"),
        ("kind", "Pool", 'kind: "Pool" is not allowed; InferencePool'),
        ("metadata", DELETED, "metadata: required"),
        ("metadata/name", DELETED, "metadata.name: required"),
        (
            "metadata/name",
            "Llama",
            'metadata.name: "Llama" is not allowed;'
            " 1 to 253 lower-case letters, digits, '-' and '.'",
        ),
        (
            "metadata/namespace",
            "a.b",
            'metadata.namespace: "a.b" is not allowed;'
            " 1 to 63 lower-case letters, digits and '-'",
        ),
        ("spec", DELETED, "spec: required"),
        ("spec", [], "spec: [] is not allowed; a mapping"),
        ("spec/selector", DELETED, "spec.selector: required"),
        ("spec/selector", {}, "spec.selector.matchLabels: required"),
        (
            "spec/selector/matchLabels",
            {},
            "spec.selector.matchLabels: 0 entries are not allowed; at least 1",
        ),
        (
            "spec/selector/matchLabels",
            {f"key-{n}": "" for n in range(65)},
            "spec.selector.matchLabels: 65 entries are not allowed; at most 64",
        ),
        (
            "spec/selector/matchLabels/app",
            True,
            f"spec.selector.matchLabels.app: true is not allowed; {LABEL_RULE}",
        ),
        (
            "spec/selector/matchLabels/app",
            "-x",
            f'spec.selector.matchLabels.app: "-x" is not allowed; {LABEL_RULE}',
        ),
        (
            "spec/selector/matchLabels",
            {"example.org/a": "x" * 64},
            f'spec.selector.matchLabels[example.org/a]: "{"x" * 64}" is not allowed; {LABEL_RULE}',
        ),
        (
            "spec/selector/matchLabels",
            {1: "x"},
            "spec.selector.matchLabels: key 1 is not allowed; a string (quote it)",
        ),
        ("spec/targetPorts", DELETED, "spec.targetPorts: required"),
        ("spec/targetPorts", None, "spec.targetPorts: required"),
        ("spec/targetPorts", [], "spec.targetPorts: 0 entries are not allowed; at least 1"),
        (
            "spec/targetPorts",
            [{"number": n} for n in range(1, 10)],
            "spec.targetPorts: 9 entries are not allowed; at most 8",
        ),
        ("spec/targetPorts", 8000, "spec.targetPorts: 8000 is not allowed; a list"),
        ("spec/targetPorts/1", 8001, "spec.targetPorts[1]: 8001 is not allowed; a mapping"),
        ("spec/targetPorts/1", {}, "spec.targetPorts[1].number: required"),
        (
            "spec/targetPorts/1/number",
            70000,
            "spec.targetPorts[1].number: 70000 is not allowed; 1 to 65535",
        ),
        (
            "spec/targetPorts/1/number",
            0,
            "spec.targetPorts[1].number: 0 is not allowed; 1 to 65535",
        ),
        (
            "spec/targetPorts/1/number",
            "8001",
            'spec.targetPorts[1].number: "8001" is not allowed; 1 to 65535',
        ),
        (
            "spec/targetPorts/1/number",
            True,
            "spec.targetPorts[1].number: true is not allowed; 1 to 65535",
        ),
        (
            "spec/targetPorts/1/number",
            8000,
            "spec.targetPorts[1].number: 8000 is not allowed; every port number once",
        ),
        (
            "spec/appProtocol",
            "grpc",
            'spec.appProtocol: "grpc" is not allowed; http or kubernetes.io/h2c',
        ),
        (
            "spec/endpointPickerRef/group",
            "A",
            'spec.endpointPickerRef.group: "A" is not allowed;'
            ' "" or a DNS name of at most 253 characters',
        ),
        (
            "spec/endpointPickerRef/kind",
            "1st",
            'spec.endpointPickerRef.kind: "1st" is not allowed;'
            " 1 to 63 letters, digits and '-', a letter first",
        ),
        ("spec/endpointPickerRef/name", DELETED, "spec.endpointPickerRef.name: required"),
        (
            "spec/endpointPickerRef/name",
            "",
            'spec.endpointPickerRef.name: "" is not allowed; 1 to 253 characters',
        ),
        (
            "spec/endpointPickerRef/port",
            DELETED,
            "spec.endpointPickerRef.port: required when kind is Service (the default)",
        ),
        (
            "spec/endpointPickerRef",
            {"name": "x"},
            "spec.endpointPickerRef.port: required when kind is Service (the default)",
        ),
        (
            "spec/endpointPickerRef/port/number",
            65536,
            "spec.endpointPickerRef.port.number: 65536 is not allowed; 1 to 65535",
        ),
        (
            "spec/endpointPickerRef/failureMode",
            "failopen",
            'spec.endpointPickerRef.failureMode: "failopen" is not allowed; FailOpen or FailClose',
        ),
    ],
)
def test_a_mistake_is_named_with_path_value_and_rule(
    path: str, value: object, message: str
) -> None:
    assert error_lines(manifest_with(path, value)) == [message]


def test_all_mistakes_are_reported_at_once() -> None:
    document = manifest_with("spec/targetPorts", [{"number": 0}, {"number": 5}, {"number": 5}])
    document["spec"]["endpointPickerRef"] = {"failureMode": "No"}
    document["spec"]["appProtocl"] = "http"

    assert error_lines(document) == [
        "spec.targetPorts[0].number: 0 is not allowed; 1 to 65535",
        "spec.endpointPickerRef.name: required",
        'spec.endpointPickerRef.failureMode: "No" is not allowed; FailOpen or FailClose',
        "spec.targetPorts[2].number: 5 is not allowed; every port number once",
        "spec.endpointPickerRef.port: required when kind is Service (the default)",
        "spec.appProtocl: unknown field, ignored; did you mean 'appProtocol'?",
    ]


def test_a_very_long_list_of_mistakes_is_cut() -> None:
    lines = error_lines(manifest_with("spec/targetPorts", [{"number": "x"}] * 8 + [{}] * 100))
    many_labels = manifest_with(
        "spec/selector/matchLabels", {f"key-{number}": 0 for number in range(64)}
    )

    assert lines == ["spec.targetPorts: 108 entries are not allowed; at most 8"]
    assert len(error_lines(many_labels)) == 51
    assert error_lines(many_labels)[-1] == "and 14 more"


def test_what_is_no_mapping_is_refused() -> None:
    assert error_lines([]) == ["[] is not allowed; a mapping"]


def test_unknown_fields_are_ignored_and_told() -> None:
    document = manifest_with("spec/failureMode", "FailOpen")
    document["metadata"]["anything"] = 1
    document["spec"]["targetPorts"][0]["name"] = "http"

    assert parsed(document) == parsed(manifest_with())
    assert unknown_pool_fields(document) == [
        "spec.targetPorts[0].name: unknown field, ignored",
        "spec.failureMode: unknown field, ignored",
    ]


OLD_MANIFEST = """
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferencePool
metadata: {name: llama, namespace: lab}
spec:
  selector: {app: llama}
  targetPortNumber: 8000
  extensionRef: {name: llama-epp, failureMode: FailOpen}
"""


def test_the_form_before_v1_is_refused_and_shown_in_the_form_of_today() -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(yaml.safe_load(OLD_MANIFEST))

    heading, _, shown = str(caught.value).partition("\n")
    assert heading == (
        "InferencePool is written in the form before v1"
        " (apiVersion inference.networking.x-k8s.io/v1alpha2, spec.selector without matchLabels,"
        " spec.targetPortNumber, spec.extensionRef). Write it as:"
    )
    assert parsed(yaml.safe_load(shown)) == InferencePool(
        name="llama",
        namespace="lab",
        match_labels={"app": "llama"},
        target_ports=(8000,),
        failure_mode=FailureMode.FAIL_OPEN,
    )


@pytest.mark.parametrize(
    ("path", "value", "sign"),
    [
        ("apiVersion", "inference.networking.x-k8s.io/v1alpha2", "apiVersion "),
        ("spec/selector", {"app": "llama"}, "spec.selector without matchLabels"),
        ("spec/targetPortNumber", 8000, "spec.targetPortNumber"),
        ("spec/extensionRef", {"name": "x", "portNumber": 9}, "spec.extensionRef"),
    ],
)
def test_each_sign_of_the_old_form_is_named(path: str, value: object, sign: str) -> None:
    with pytest.raises(ConfigError, match="in the form before v1") as caught:
        parsed(manifest_with(path, value))

    assert sign in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)
paths = st.sampled_from(
    [
        "apiVersion",
        "kind",
        "metadata",
        "metadata/name",
        "spec",
        "spec/selector",
        "spec/selector/matchLabels",
        "spec/targetPorts",
        "spec/targetPorts/0",
        "spec/targetPorts/0/number",
        "spec/appProtocol",
        "spec/endpointPickerRef",
        "spec/endpointPickerRef/port",
        "spec/endpointPickerRef/kind",
        "status",
    ]
)


@given(path=paths, value=json_values)
def test_any_value_anywhere_is_a_pool_or_an_explained_error(path: str, value: object) -> None:
    document = manifest_with(path, value)
    before = copy.deepcopy(document)
    with contextlib.suppress(ConfigError):
        assert 1 <= len(parsed(document).target_ports) <= 8

    assert repr(document) == repr(before)
