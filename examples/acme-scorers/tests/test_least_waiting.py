import pytest
from acme_scorers.least_waiting import LeastWaitingScorer

from epp.testing import built, endpoint_of, request_of


def test_the_fewer_requests_wait_the_better() -> None:
    scorer = built(LeastWaitingScorer, max_waiting=10)
    endpoints = [endpoint_of(waiting=waiting) for waiting in (0, 5, 10, 99)]

    assert scorer.score(request_of(), endpoints) == [1.0, 0.5, 0.0, 0.0]


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="max"):
        built(LeastWaitingScorer, max_waiting=0)
