from __future__ import annotations

import pytest

from epp.data_layer.wiring import Attachment, wire
from epp.framework.data_layer import (
    EndpointSource,
    KubernetesEvent,
    KubernetesExtractor,
    KubernetesSource,
)
from epp.framework.errors import ConfigError
from tests.fakes.data_layer import (
    AttributeExtractor,
    LoadExtractor,
    PageSource,
    RecordingListener,
)


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


class Both(PageSource, EndpointSource):
    pass


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


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        pytest.param(
            [(PageSource("m"), []), (PageSource("m"), [])],
            "dataLayer.sources: 'm' is there more than once; list its extractors together",
            id="source twice",
        ),
        pytest.param(
            [(PageSource("m"), [LoadExtractor(), LoadExtractor()])],
            "dataLayer.sources: 'm' has more than one extractor of type 'load-extractor'",
            id="extractor twice",
        ),
        pytest.param(
            [(PageSource("m"), [Follower()])],
            "dataLayer.sources: 'm' asks every endpoint, so extractor 'follower' must be a"
            " Extractor",
            id="wrong extractor of a page",
        ),
        pytest.param(
            [(Watch("w", "Pod"), [LoadExtractor()])],
            "dataLayer.sources: 'w' follows objects of Kubernetes, so extractor 'load-extractor'"
            " must be a KubernetesExtractor",
            id="wrong extractor of objects",
        ),
        pytest.param(
            [(Endpoints(), [AttributeExtractor()])],
            "dataLayer.sources: 'endpoints' follows endpoints, so extractor 'attribute-extractor'"
            " must be a EndpointListener",
            id="wrong extractor of endpoints",
        ),
        pytest.param(
            [(Both("b"), [])],
            "dataLayer.sources: 'b' is 2 kinds of source; it must be exactly one of"
            " EndpointSource, KubernetesSource, PollingSource",
            id="two kinds",
        ),
        pytest.param(
            [(Watch("a", "Pod"), []), (Watch("b", "Pod"), [])],
            "dataLayer.sources: more than one source follows 'v1 Pod'",
            id="one kind of object twice",
        ),
    ],
)
def test_what_does_not_fit_together_is_named(sources: list[Attachment], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        wire(sources)

    assert str(caught.value) == problem


def test_what_is_no_source_is_named() -> None:
    with pytest.raises(ConfigError, match="'load-extractor' is no data source"):
        wire([(LoadExtractor(), [])])  # type: ignore[list-item] # what a configuration may say


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        wire([(PageSource("m"), [Follower()]), (PageSource("m"), [])])

    assert str(caught.value).count("dataLayer.sources") == 2
