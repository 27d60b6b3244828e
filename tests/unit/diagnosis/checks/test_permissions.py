from __future__ import annotations

from typing import Any

from epp.diagnosis.checks.permissions import needed_rights, rules
from tests.fakes.doctor_cases import doctor_case


def rights(**flags: Any) -> set[tuple[str, str, str]]:
    case = doctor_case(**{"pool_file": None, "pool_name": "llama", **flags})
    return {(right.resource, right.verb, right.name) for right in needed_rights(case)}


def test_a_pool_takes_lists_and_watches_and_no_more() -> None:
    assert rights() == {
        ("pods", "list", ""),
        ("pods", "watch", ""),
        ("inferencepools", "list", "llama"),
        ("inferencepools", "watch", "llama"),
        ("inferenceobjectives", "list", ""),
        ("inferenceobjectives", "watch", ""),
    }


def test_a_selector_takes_pods_alone() -> None:
    assert rights(pool_name="", endpoint_selector="app=a", endpoint_target_ports=(1,)) == {
        ("pods", "list", ""),
        ("pods", "watch", ""),
    }


def test_an_election_takes_its_own_lease() -> None:
    added = rights(ha_enable_leader_election=True, pool_namespace="models") - rights()

    assert added == {
        ("leases", "create", ""),
        ("leases", "get", "epp-models-llama.llm-d.ai"),
        ("leases", "update", "epp-models-llama.llm-d.ai"),
    }


def test_events_take_rights_of_their_own() -> None:
    assert rights(emit_events=True) - rights() == {
        ("events", "create", ""),
        ("events", "patch", ""),
    }


def test_authentication_of_the_metrics_port_takes_reviews() -> None:
    case = doctor_case(pool_file=None, pool_name="llama", metrics_endpoint_auth=None)

    added = [right for right in needed_rights(case) if right.is_cluster_wide]

    assert all("503" in right.without for right in added)

    assert [(right.resource, right.verb) for right in added] == [
        ("tokenreviews", "create"),
        ("subjectaccessreviews", "create"),
    ]


def test_rights_are_told_as_the_rules_of_a_role() -> None:
    case = doctor_case(pool_file=None, pool_name="llama")

    granting = list(rules(needed_rights(case)))

    assert 'apiGroups: [""], resources: [pods], verbs: [list, watch]' in granting
    assert (
        "apiGroups: [inference.networking.k8s.io], resources: [inferencepools],"
        " resourceNames: [llama], verbs: [list, watch]"
    ) in granting
