from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from epp.kubernetes.resource import KubeObject, ObjectKey
from epp.kubernetes.store import Store, StoreChange


def known(name: str, value: int = 1, *, uid: str = "", version: str = "1") -> KubeObject[int]:
    return KubeObject(
        key=ObjectKey("models", name),
        uid=uid or f"uid-{name}",
        resource_version=version,
        value=value,
    )


class Listener:
    def __init__(self) -> None:
        self.batches: list[list[tuple[int | None, int | None]]] = []

    def __call__(self, changes: Sequence[StoreChange[int]]) -> None:
        self.batches.append(
            [(c.old.value if c.old else None, c.new.value if c.new else None) for c in changes]
        )


def test_what_says_the_same_is_not_told() -> None:
    listener = Listener()
    store = Store(listener)

    store.upsert(known("a"))
    store.upsert(known("a"))
    store.upsert(known("a", version="2"))

    assert listener.batches == [[(None, 1)]]
    assert [each.resource_version for each in store.objects()] == ["2"]


def test_another_object_of_the_same_name_is_deleted_and_added() -> None:
    listener = Listener()
    store = Store(listener)
    store.upsert(known("a", 1))

    store.upsert(known("a", 1, uid="other"))

    assert listener.batches[1:] == [[(1, None), (None, 1)]]


def test_an_unknown_object_may_be_deleted() -> None:
    listener = Listener()

    Store(listener).delete(ObjectKey("models", "a"))

    assert not listener.batches


def test_a_batch_is_told_at_once_and_in_order() -> None:
    listener = Listener()
    store = Store(listener)

    with store.batch():
        store.upsert(known("a", 1))
        store.upsert(known("a", 2))
        store.delete(ObjectKey("models", "a"))
        assert not listener.batches

    assert listener.batches == [[(None, 1), (1, 2), (2, None)]]


def test_a_list_tells_what_vanished_first() -> None:
    listener = Listener()
    store = Store(listener)
    store.replace([known("a", 1), known("b", 2), known("c", 3)])

    changes = store.replace([known("b", 20), known("c", 3), known("d", 4)])

    assert listener.batches[1:] == [[(1, None), (2, 20), (None, 4)]]
    assert len(changes) == 3


def test_what_a_list_could_not_read_stays_as_it_was() -> None:
    store = Store(Listener())
    store.replace([known("a", 1), known("b", 2)])

    store.replace([known("b", 3)], unreadable={ObjectKey("models", "a")})

    assert {each.key.name: each.value for each in store.objects()} == {"a": 1, "b": 3}


class Fickle:
    """Knows what it was told, apart from the objects that it can't take in for now."""

    def __init__(self, *refused: str) -> None:
        self.refused = set(refused)
        self.known: dict[str, int] = {}

    def __call__(self, changes: Sequence[StoreChange[int]]) -> None:
        for change in changes:
            name = change.key.name
            if name in self.refused:
                raise KeyError(name)
            self.known.pop(name, None)
            if change.new is not None:
                self.known[name] = change.new.value


def test_what_a_listener_fails_to_take_in_is_logged_and_told_again_with_the_next_list() -> None:
    """Pitfall 34: it must not wait for the object to change once more."""
    listener = Fickle("b")
    store = Store(listener)
    everything = [known("a", 1), known("b", 2), known("c", 3)]

    with capture_logs() as logs:
        store.replace(everything)

    assert [line["log_level"] for line in logs] == ["error"]
    assert listener.known == {"a": 1, "c": 3}
    assert store.is_behind
    listener.refused.clear()
    store.replace(everything)
    assert listener.known == {"a": 1, "b": 2, "c": 3}
    assert not store.is_behind


@pytest.mark.parametrize("is_replaced", [False, True])
def test_what_could_not_be_taken_back_is_taken_back_with_the_next_list(is_replaced: bool) -> None:
    listener = Fickle()
    store = Store(listener)
    store.replace([known("a", 1), known("b", 2)])
    listener.refused.add("b")
    left = [known("a", 1), *([known("b", 3, uid="another")] if is_replaced else [])]

    with capture_logs():
        store.replace(left)
    assert listener.known == {"a": 1, "b": 2}
    listener.refused.clear()
    store.replace(left)

    assert listener.known == {each.key.name: each.value for each in left}


_OBJECTS = st.builds(
    known,
    st.sampled_from("abc"),
    st.integers(0, 2),
    uid=st.sampled_from(["", "other"]),
    version=st.sampled_from(["1", "2"]),
)
_STEPS = st.one_of(
    _OBJECTS,
    st.sampled_from("abc").map(lambda name: ObjectKey("models", name)),
    st.lists(_OBJECTS, max_size=4),
)


@given(st.lists(_STEPS))
def test_who_follows_the_changes_knows_what_the_store_knows(
    steps: list[KubeObject[int] | ObjectKey | list[KubeObject[int]]],
) -> None:
    mirror: dict[ObjectKey, tuple[str, int]] = {}

    def follow(changes: Sequence[StoreChange[int]]) -> None:
        for change in changes:
            if change.old is not None:
                assert mirror.pop(change.old.key) == (change.old.uid, change.old.value)
            if change.new is not None:
                assert change.new.key not in mirror
                mirror[change.new.key] = (change.new.uid, change.new.value)
            assert change.old is None or change.new is None or change.old.uid == change.new.uid

    store = Store(follow)
    for step in steps:
        if isinstance(step, list):
            store.replace(step)
        elif isinstance(step, KubeObject):
            store.upsert(step)
        else:
            store.delete(step)

    assert mirror == {each.key: (each.uid, each.value) for each in store.objects()}
