import pytest
from acme_scorers.recent_failures import (
    RECENT_FAILURES,
    Failures,
    RecentFailuresScorer,
    RecentFailuresTracker,
)

from epp.framework import ConfigError
from epp.library import Picker
from epp.testing import FakeContext, built, endpoint_of, put_on, request_of, response_of


def test_a_failure_counts_half_after_a_half_life() -> None:
    scorer = built(RecentFailuresScorer, FakeContext(now=lambda: 30.0), half_life_seconds=30)
    fails, works = endpoint_of("e1"), endpoint_of("e2")
    put_on(RECENT_FAILURES, fails, Failures(count=2.0, at=0.0))

    assert scorer.score(request_of(), [fails, works]) == [0.5, 1.0]


def test_only_failed_requests_are_counted() -> None:
    context = FakeContext("recent-failures-tracker")
    tracker = built(RecentFailuresTracker, context)
    endpoint = endpoint_of()

    for status in (503, 200, 404, 503):
        tracker.ended(request_of(), response_of(status), endpoint)

    scorer = built(RecentFailuresScorer)
    assert scorer.score(request_of(), [endpoint]) == [pytest.approx(1 / 3)]
    assert context.series("acme_failed_requests_total")["503",].value == 2


CONFIGURATION = """
plugins: [{type: recent-failures-scorer, parameters: {halfLifeSeconds: 30}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: recent-failures-scorer}]}]
"""


def test_the_next_request_avoids_the_endpoint_that_failed() -> None:
    picker = Picker.from_config(CONFIGURATION)
    picker.add("10.0.0.1:8000")
    picker.add("10.0.0.2:8000")

    failed = picker.pick(model="llama", prompt="Hello")
    failed.done(status=503)

    assert picker.pick(model="llama", prompt="Hello").address != failed.address


def test_a_half_life_of_nothing_is_told_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"plugins\[0\].parameters.halfLifeSeconds"):
        Picker.from_config(CONFIGURATION.replace("30", "0"))
