from __future__ import annotations

from epp.data_layer.wiring import wire
from epp.framework.data_layer import (
    EndpointSource,
    KubernetesEvent,
    KubernetesExtractor,
    KubernetesSource,
)
from tests.fakes.data_layer import LoadExtractor, PageSource, RecordingListener


class Watch(KubernetesSource):
    version = "v1"

    def __init__(self, name: str, kind: str) -> None:
        self.identify(type="watch", name=name)
        self.kind = kind


class Follower(KubernetesExtractor):
    def __init__(self) -> None:
        self.identify(type="follower", name="")

    def extract_object(self, event: KubernetesEvent) -> None: ...


class Endpoints(EndpointSource):
    type = "endpoints"


def test_sources_are_sorted_by_kind() -> None:
    page, load = PageSource(), LoadExtractor()
    watch, follower = Watch("w", "Pod"), Follower()
    listener, other = RecordingListener("one"), RecordingListener("two")

    wiring = wire(
        [
            (page, [load]),
            (PageSource("unread"), []),
            (watch, [follower]),
            (Endpoints(), [listener]),
        ],
        [listener, other],
    )

    assert wiring.polled == ((page, (load,)),)
    assert wiring.kubernetes == ((watch, (follower,)),)
    assert wiring.listeners == (listener, other)
