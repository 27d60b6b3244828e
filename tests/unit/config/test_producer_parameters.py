from __future__ import annotations

import pytest

from tests.fakes.configurations import assembled


def warnings_of(name: str, *, metric: str = "waiting-queue", more: str = "") -> list[str]:
    """Of a filter that reads the load in flight only for the metric `active-requests`."""
    text = (
        "plugins: [{type: utilization-filter, parameters: {conditions:"
        f" [{{metric: {metric}, maxValue: 5}}], inFlightLoadProducerName: {name}}}}},"
        f" {{type: queue-scorer}}{more}]"
    )
    return list(assembled(text, allow_experimental=True).warnings)


def test_the_name_of_nobody_is_told_though_nothing_is_read() -> None:
    assert warnings_of("inflght") == [
        "plugins[0].parameters.inFlightLoadProducerName: without effect as 'utilization-filter' is"
        ' configured, and "inflght" is no plugin of this document'
    ]


def test_what_was_meant_is_told_with_it() -> None:
    (warning,) = warnings_of("inflght", more=", {type: inflight-load-producer, name: inflight}")

    assert "did you mean 'inflight'?" in warning


@pytest.mark.parametrize("name", ["inflight-load-producer", "queue-scorer", '""'])
def test_names_that_there_are_and_the_default_producer_are_not_told(name: str) -> None:
    assert warnings_of(name) == []


def test_a_name_that_is_read_from_is_not_told() -> None:
    listed = ", {type: inflight-load-producer, name: mine}"

    assert warnings_of("mine", metric="active-requests", more=listed) == []
