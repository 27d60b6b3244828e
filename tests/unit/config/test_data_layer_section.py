from __future__ import annotations

import pytest

from tests.fakes.configurations import assembled, refusal, registry_with

REGISTRY = registry_with({"no-kind": "SourceOfNoKind", "two-kinds": "SourceOfTwoKinds"})
PLUGINS = """
- {type: metrics-data-source}
- {type: core-metrics-extractor}
- {type: core-metrics-extractor, name: again}
- {type: models-data-extractor}
- {type: k8s-notification-source, name: pods, parameters: {version: v1, kind: Pod}}
- {type: k8s-notification-source, name: more-pods, parameters: {version: v1, kind: Pod}}
- {type: endpoint-notification-source}
- {type: no-kind}
- {type: two-kinds}
"""


def document(*sources: str) -> str:
    return f"plugins: {PLUGINS}\ndataLayer: {{sources: [{', '.join(sources)}]}}"


def source(name: str, *extractors: str) -> str:
    listed = ", ".join(f"{{pluginRef: {each}}}" for each in extractors)
    return f"{{pluginRef: {name}, extractors: [{listed}]}}"


PAGES = source("metrics-data-source", "core-metrics-extractor")


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        pytest.param(
            (PAGES, PAGES),
            "dataLayer.sources[1].pluginRef: 'metrics-data-source' is there more than once;"
            " list its extractors together",
            id="source twice",
        ),
        pytest.param(
            (source("metrics-data-source", "core-metrics-extractor", "again"),),
            "dataLayer.sources[0].extractors[1].pluginRef: 'metrics-data-source' has more than one"
            " extractor of type 'core-metrics-extractor'",
            id="type of extractor twice",
        ),
        pytest.param(
            (source("metrics-data-source", "again", "again"),),
            "dataLayer.sources[0].extractors[1].pluginRef: 'metrics-data-source' has more than one"
            " extractor of type 'core-metrics-extractor'",
            id="extractor twice",
        ),
        pytest.param(
            (source("metrics-data-source", "models-data-extractor"),),
            "dataLayer.sources[0].extractors[0].pluginRef: 'models-data-extractor' reads a list of"
            " models; 'metrics-data-source' brings a page of metrics",
            id="extractor of another payload",
        ),
        pytest.param(
            (PAGES, source("pods"), source("more-pods")),
            "dataLayer.sources[2].pluginRef: more than one source follows 'v1 Pod'",
            id="kind of object twice",
        ),
        pytest.param(
            (PAGES, source("pods", "again")),
            "dataLayer.sources[1].extractors[0].pluginRef: plugin 'again' (type"
            " 'core-metrics-extractor') is not allowed; a KubernetesExtractor",
            id="wrong extractor of objects",
        ),
        pytest.param(
            (PAGES, source("endpoint-notification-source", "again")),
            "dataLayer.sources[1].extractors[0].pluginRef: plugin 'again' (type"
            " 'core-metrics-extractor') is not allowed; an EndpointListener",
            id="wrong extractor of endpoints",
        ),
        pytest.param(
            (PAGES, source("core-metrics-extractor")),
            "dataLayer.sources[1].pluginRef: plugin 'core-metrics-extractor' (type"
            " 'core-metrics-extractor') is not allowed; a DataSource",
            id="no source",
        ),
        pytest.param(
            (PAGES, source("no-kind")),
            "dataLayer.sources[1].pluginRef: 'no-kind' is 0 kinds of source; one of"
            " EndpointSource, KubernetesSource, PollingSource",
            id="source of no kind",
        ),
        pytest.param(
            (PAGES, source("two-kinds")),
            "dataLayer.sources[1].pluginRef: 'two-kinds' is 2 kinds of source; one of"
            " EndpointSource, KubernetesSource, PollingSource",
            id="source of two kinds",
        ),
    ],
)
def test_sources_that_do_not_fit_together_are_refused(
    sources: tuple[str, ...], problem: str
) -> None:
    assert refusal(document(*sources), registry=REGISTRY) == [problem]


def test_every_mistake_is_told_at_once() -> None:
    sources = (PAGES, PAGES, source("pods", "again"))

    assert len(refusal(document(*sources), registry=REGISTRY)) == 2


def test_an_endpoint_source_may_be_listed_twice() -> None:
    twice = source("endpoint-notification-source")

    assembled(document(PAGES, twice, twice), registry=REGISTRY)
