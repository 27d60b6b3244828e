from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.datastore.datastore import Datastore
from epp.datastore.inference_objective import GROUPS
from epp.datastore.inference_pool import FailureMode, InferencePool
from epp.discovery.pool_file import MAX_BYTES, PoolFile, parse_pool_file, read_content
from epp.framework.errors import ConfigError

OLD_GROUP = GROUPS[1]
EXAMPLE = Path(__file__).parents[3] / "config" / "examples" / "pool.yaml"

MANIFEST = """
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: llama}
spec:
  selector: {matchLabels: {app: llama}}
  targetPorts: [{number: 8000}, {number: 8001}]
"""
OBJECTIVE = """
apiVersion: llm-d.ai/v1alpha2
kind: InferenceObjective
metadata: {name: batch}
spec: {poolRef: {name: llama}, priority: -1}
"""
REWRITE = "kind: InferenceModelRewrite"
ENTRIES = """
endpoints:
- {name: a, address: 10.0.0.1, port: 9000}
- {name: b, address: 10.0.0.2, port: 9000}
"""
WITHOUT_PORT = "endpoints: [{name: a, address: 10.0.0.1}]"


def parsed(*documents: str) -> PoolFile:
    return parse_pool_file("\n---\n".join(documents).encode(), default_namespace="lab")


def addresses(pool_file: PoolFile) -> list[str]:
    datastore = Datastore()
    datastore.set_pool(pool_file.pool)
    datastore.set_pods(pool_file.pods)
    return [endpoint.address for endpoint in datastore.snapshot().endpoints]


def test_the_example_is_a_pool_of_three_endpoints() -> None:
    pool_file = parse_pool_file(read_content(EXAMPLE))

    assert (pool_file.skipped, pool_file.warnings, pool_file.ignored_kinds) == ((), (), ())
    assert pool_file.pool.name == "local"
    assert pool_file.pool.failure_mode is FailureMode.FAIL_CLOSE
    assert addresses(pool_file) == ["127.0.0.1:8000", "127.0.0.1:8001", "127.0.0.1:8002"]


def test_a_manifest_gives_the_pool_and_entries_its_endpoints() -> None:
    pool_file = parsed(MANIFEST, ENTRIES)

    assert (pool_file.pool.namespace, pool_file.pool.name) == ("lab", "llama")
    assert addresses(pool_file) == ["10.0.0.1:9000", "10.0.0.2:9000"]


def test_an_entry_without_port_is_a_pod_with_every_target_port() -> None:
    assert addresses(parsed(MANIFEST, WITHOUT_PORT)) == ["10.0.0.1:8000", "10.0.0.1:8001"]


def test_the_order_of_documents_does_not_matter() -> None:
    assert parsed(WITHOUT_PORT, MANIFEST) == parsed(MANIFEST, WITHOUT_PORT)


def test_several_lists_are_one() -> None:
    pool_file = parsed(MANIFEST, ENTRIES, "endpoints: [{name: c, address: 10.0.0.3, port: 1}]")

    assert [pod.name for pod in pool_file.pods] == ["a", "b", "c"]


def test_entries_alone_are_a_pool_that_says_nothing_of_failures() -> None:
    pool_file = parsed(ENTRIES)

    assert pool_file.pool == InferencePool(name="epp", namespace="lab", failure_mode=None)
    assert addresses(pool_file) == ["10.0.0.1:9000", "10.0.0.2:9000"]


def test_a_manifest_alone_is_a_pool_without_endpoints() -> None:
    assert addresses(parsed(MANIFEST)) == []


def test_a_bad_entry_is_reported_and_the_rest_counts() -> None:
    pool_file = parsed(MANIFEST, "endpoints: [{name: x, address: host}, {name: y, address: '::1'}]")

    assert len(pool_file.skipped) == 1
    assert addresses(pool_file) == ["[::1]:8000", "[::1]:8001"]


def test_other_manifests_are_named_once_for_each_kind() -> None:
    pool_file = parsed(REWRITE, MANIFEST, "kind: Service", REWRITE)

    assert pool_file.ignored_kinds == ("InferenceModelRewrite", "Service")


def test_objectives_give_priorities_by_name() -> None:
    gold = OBJECTIVE.replace("batch", "gold").replace("-1", "5").replace("llm-d.ai", OLD_GROUP)
    plain = OBJECTIVE.replace("batch", "plain").replace(", priority: -1", "")

    pool_file = parsed(OBJECTIVE, gold, plain, MANIFEST)

    assert pool_file.priorities == {"batch": -1, "gold": 5, "plain": 0}
    assert (pool_file.ignored_kinds, pool_file.warnings) == ((), ())


def test_an_objective_of_another_pool_is_skipped_and_told() -> None:
    pool_file = parsed(OBJECTIVE.replace("llama", "mistral"), MANIFEST)

    assert pool_file.priorities == {}
    assert pool_file.skipped == (
        "InferenceObjective batch: spec.poolRef: it is about the pool 'mistral' of group"
        " 'inference.networking.k8s.io', not about 'llama'",
    )


def test_a_bad_objective_is_skipped_and_says_what_is_wrong() -> None:
    bad = OBJECTIVE.replace("-1", "high").replace("poolRef", "poolref")

    pool_file = parsed(bad, MANIFEST)

    assert pool_file.priorities == {}
    assert pool_file.skipped == (
        "document 1: InferenceObjective is not valid:\n"
        "  spec.poolRef: required\n"
        '  spec.priority: "high" is not allowed; a whole number of 32 bits\n'
        "  spec.poolref: unknown field",
    )


def test_unknown_fields_are_warned_about() -> None:
    pool_file = parsed(MANIFEST + "  failureMode: FailOpen\n", ENTRIES + "version: 1\n")

    assert pool_file.warnings == (
        "document 2: unknown field version",
        "spec.failureMode: unknown field, ignored",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds neither an InferencePool manifest nor an `endpoints:` list"),
        (OBJECTIVE, "holds neither an InferencePool manifest nor an `endpoints:` list"),
        ("endpoints:", "document 1: endpoints: null is not allowed; a list"),
        ("endpoints: {a: 1}", "document 1: endpoints: {'a': 1} is not allowed; a list"),
        ("---\nendpoint: []", "document 1: has neither `kind` nor `endpoints`"),
        ("just text", 'document 1: "just text" is not a mapping'),
        (f"{MANIFEST}---{MANIFEST}", "holds 2 InferencePool manifests; one is allowed"),
        (
            MANIFEST.replace("8001", "70000"),
            "InferencePool is not valid:\n"
            "  spec.targetPorts[1].number: 70000 is not allowed; 1 to 65535",
        ),
        (
            WITHOUT_PORT,
            "endpoints without `port` need an InferencePool manifest with spec.targetPorts"
            " in the same file:\n  default/a",
        ),
        (ENTRIES + "endpoints: []", "not valid YAML: line 5, column 1: key 'endpoints' is given"),
    ],
)
def test_a_file_that_is_wrong_as_a_whole_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(text)

    assert str(caught.value).startswith(message)


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(ConfigError, match="not UTF-8: byte 1"):
        parse_pool_file(b"a\xff")


def test_a_byte_order_mark_is_harmless() -> None:
    assert len(parse_pool_file(b"\xef\xbb\xbf" + ENTRIES.encode()).pods) == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pool file .*none\.yaml can't be read: No such file"):
        read_content(tmp_path / "none.yaml")


def test_a_file_over_the_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    path.write_bytes(b"#" * MAX_BYTES)
    assert len(read_content(path)) == MAX_BYTES

    path.write_bytes(b"#" * (MAX_BYTES + 1))

    with pytest.raises(ConfigError, match="larger than 1048576 bytes"):
        read_content(path)


def test_a_named_pipe_is_refused_instead_of_waiting_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    os.mkfifo(path)

    with pytest.raises(ConfigError, match=r"pool\.yaml can't be read: not a regular file"):
        read_content(path)


@given(st.integers(0, len(MANIFEST + ENTRIES)), st.binary(max_size=3))
def test_any_damage_leaves_a_pool_or_an_explained_error(position: int, damage: bytes) -> None:
    content = f"{MANIFEST}---{ENTRIES}".encode()
    with contextlib.suppress(ConfigError):
        parse_pool_file(content[:position] + damage + content[position + 2 :])


@pytest.mark.parametrize("kind", ["InferencePol", "inferencepool", "InferencePools"])
def test_a_misspelt_pool_is_refused_rather_than_ignored(kind: str) -> None:
    with pytest.raises(ConfigError, match=rf"kind: {kind} is not known; did you mean Inf"):
        parsed(MANIFEST.replace("kind: InferencePool", f"kind: {kind}"), ENTRIES)


def test_manifests_without_a_pool_among_them_are_warned_about() -> None:
    assert parsed(REWRITE, ENTRIES).warnings == ("no InferencePool manifest among the manifests",)


def test_two_names_for_one_address_are_warned_about() -> None:
    twice = "endpoints: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.1}]"

    pool_file = parsed(MANIFEST, twice)

    assert pool_file.warnings == ("endpoints with one address: default/a, default/b",)
