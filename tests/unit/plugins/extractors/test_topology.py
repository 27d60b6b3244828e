"""Where endpoints run."""

from __future__ import annotations

from dataclasses import replace

from epp.framework.data_types import Topology
from epp.plugins.extractors.topology import TopologyExtractor
from epp.testing import built, endpoint_of

KEY = "Topology/topology-extractor"
LABELS = {
    "kubernetes.io/hostname": "h",
    "topology.kubernetes.io/rack": "r",
    "topology.kubernetes.io/zone": "z",
    "topology.kubernetes.io/region": "g",
}


def test_labels_of_the_pod_are_taken() -> None:
    endpoint = endpoint_of(labels=LABELS)

    built(TopologyExtractor).endpoint_added(endpoint)

    assert endpoint.state.attributes[KEY] == Topology(hostname="h", rack="r", zone="z", region="g")


def test_labels_may_have_other_names() -> None:
    endpoint = endpoint_of(labels={"dc": "east", **LABELS})

    built(TopologyExtractor, zone="dc", region="").endpoint_added(endpoint)

    assert endpoint.state.attributes[KEY] == Topology(hostname="h", rack="r", zone="east")


def test_without_a_label_the_hostname_of_the_pod_counts() -> None:
    endpoint = replace(endpoint_of(), hostname="worker-3")

    built(TopologyExtractor).endpoint_added(endpoint)

    assert endpoint.state.attributes[KEY] == Topology(hostname="worker-3")


def test_an_endpoint_of_which_nothing_is_known_has_no_topology() -> None:
    by, before = built(TopologyExtractor), endpoint_of(labels=LABELS)
    by.endpoint_added(before)

    by.endpoint_replaced(replace(before, labels={}))

    assert KEY not in before.state.attributes


def test_changed_labels_are_taken() -> None:
    by, before = built(TopologyExtractor), endpoint_of(labels=LABELS)
    by.endpoint_added(before)

    by.endpoint_replaced(replace(before, labels={"kubernetes.io/hostname": "other"}))

    assert before.state.attributes[KEY] == Topology(hostname="other")
