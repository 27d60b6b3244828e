from __future__ import annotations

from typing import Any

import pytest

from epp.datastore.pods import Pod
from epp.discovery.endpoint_entries import read_entries

ADDRESS_RULE = "an IPv4 or IPv6 address, without port (host names are not resolved)"


def entry_with(**changes: Any) -> dict[str, Any]:
    return {"name": "gpu-a", "address": "10.1.2.3", "port": "8000"} | changes


def test_an_entry_is_a_pod() -> None:
    entry = entry_with(namespace="lab", labels={"llm-d.ai/role": "decode"})

    assert read_entries([entry]).pods == [
        Pod(
            uid="lab/gpu-a@10.1.2.3",
            name="gpu-a",
            namespace="lab",
            ips=("10.1.2.3",),
            labels={"llm-d.ai/role": "decode"},
            ready=True,
            fixed_port=8000,
        )
    ]


@pytest.mark.parametrize(
    ("changes", "attribute", "expected"),
    [
        ({"port": 8000}, "fixed_port", 8000),
        ({"port": "8000"}, "fixed_port", 8000),
        ({"port": None}, "fixed_port", None),
        ({"namespace": None}, "namespace", "default"),
        ({"labels": None}, "labels", {}),
        ({"address": "FD00:0::1"}, "ips", ("fd00::1",)),
        ({"address": "FD00:0::1"}, "uid", "default/gpu-a@fd00::1"),
    ],
)
def test_entries_may_be_written_in_several_ways(
    changes: dict[str, Any], attribute: str, expected: object
) -> None:
    (pod,) = read_entries([entry_with(**changes)]).pods

    assert getattr(pod, attribute) == expected


def test_another_address_is_another_endpoint_and_another_label_is_not() -> None:
    (old,) = read_entries([entry_with()]).pods
    (moved,) = read_entries([entry_with(address="10.1.2.4")]).pods
    (labelled,) = read_entries([entry_with(labels={"a": "b"})]).pods

    assert moved.uid != old.uid
    assert labelled.uid == old.uid


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (7, "endpoints[1]: 7 is not allowed; a mapping"),
        ({}, "endpoints[1]: name: required; address: required"),
        (
            entry_with(name=""),
            'endpoints[1] (): name: "" is not allowed;'
            " 1 to 253 characters without blanks and '/' (quote numbers)",
        ),
        (
            entry_with(name=7),
            "endpoints[1]: name: 7 is not allowed;"
            " 1 to 253 characters without blanks and '/' (quote numbers)",
        ),
        (
            entry_with(namespace="a/b"),
            'endpoints[1] (gpu-a): namespace: "a/b" is not allowed;'
            " 1 to 63 characters without blanks and '/' (quote numbers)",
        ),
        (
            entry_with(address="gpu-a.lab.example"),
            'endpoints[1] (gpu-a): address: "gpu-a.lab.example" is not allowed; ' + ADDRESS_RULE,
        ),
        (
            entry_with(address="10.1.2.3:8000", port="0"),
            'endpoints[1] (gpu-a): address: "10.1.2.3:8000" is not allowed; '
            + ADDRESS_RULE
            + '; port: "0" is not allowed; 1 to 65535',
        ),
        (
            entry_with(address="0.0.0.0"),
            'endpoints[1] (gpu-a): address: "0.0.0.0" is not allowed; ' + ADDRESS_RULE,
        ),
        (
            entry_with(port=70000),
            "endpoints[1] (gpu-a): port: 70000 is not allowed; 1 to 65535",
        ),
        (
            entry_with(port="http"),
            'endpoints[1] (gpu-a): port: "http" is not allowed; 1 to 65535',
        ),
        (
            entry_with(port=True),
            "endpoints[1] (gpu-a): port: true is not allowed; 1 to 65535",
        ),
        (
            entry_with(labels={"gpus": 8}),
            "endpoints[1] (gpu-a): labels.gpus: 8 is not allowed; a string (quote it)",
        ),
        (
            entry_with(labels=["a"]),
            "endpoints[1] (gpu-a): labels: ['a'] is not allowed; a mapping",
        ),
    ],
)
def test_a_bad_entry_is_skipped_and_explained_and_the_rest_counts(
    entry: object, problem: str
) -> None:
    good = [entry_with(name="first"), entry_with(name="last")]

    entries = read_entries([good[0], entry, good[1]])

    assert entries.skipped == [problem]
    assert [pod.name for pod in entries.pods] == ["first", "last"]


def test_of_entries_with_one_name_the_last_counts() -> None:
    entries = read_entries(
        [
            entry_with(),
            entry_with(namespace="lab"),
            entry_with(address="10.1.2.9"),
            entry_with(address="nonsense"),
        ]
    )

    assert [pod.uid for pod in entries.pods] == ["lab/gpu-a@10.1.2.3", "default/gpu-a@10.1.2.9"]
    assert entries.warnings == [
        "endpoints[2]: default/gpu-a is given more than once; the last one counts"
    ]


def test_unknown_fields_are_ignored_and_told() -> None:
    entries = read_entries([entry_with(prot=8000)])

    assert len(entries.pods) == 1
    assert entries.warnings == ["endpoints[0].prot: unknown field"]
