from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from epp.framework.endpoint import Endpoint
from epp.observability.metrics import Metrics
from epp.request_control.outliers import MOST_NAMED, OutlierMemory, OutlierSettings
from epp.testing import endpoint_of
from tests.fakes.metrics.samples import value_of

SETTINGS = OutlierSettings(consecutive_errors=5, first_ejection=5.0, longest_ejection=300.0)
A, B, C, D = POOL = tuple(endpoint_of(f"e{number}") for number in (1, 2, 3, 4))


class Memory:
    """An outlier memory on a clock that a test moves."""

    def __init__(self, settings: OutlierSettings = SETTINGS) -> None:
        self.now = 1000.0
        self.metrics = Metrics()
        self.pool: Sequence[Endpoint] = POOL
        self.memory = OutlierMemory(self.metrics, lambda: self.pool, settings, lambda: self.now)

    def answers(self, endpoint: Endpoint, *statuses: int) -> None:
        for status in statuses:
            self.memory.picked(endpoint)
            self.memory.ended(endpoint, status)

    @property
    def ejected(self) -> float:
        return value_of(self.metrics, "epp_ejected_endpoints")

    def left_out(self, candidates: Sequence[Endpoint] = POOL) -> set[Endpoint]:
        return set(candidates) - set(self.memory.among(candidates))


def test_nothing_is_left_out_of_a_pool_that_works() -> None:
    memory = Memory()
    memory.answers(A, 200, 404, 429, 501)

    assert memory.memory.among(POOL) is POOL


def test_five_errors_in_a_row_eject_an_endpoint() -> None:
    memory = Memory()
    memory.answers(A, 503, 500, 502, 504)
    assert memory.left_out() == set()

    memory.answers(A, 503)

    assert memory.left_out() == {A}
    assert memory.ejected == 1


def test_errors_are_counted_by_endpoint_whether_or_not_anybody_is_ejected() -> None:
    memory = Memory(OutlierSettings(consecutive_errors=0))
    memory.answers(A, 503, 200, 501, 500)
    memory.memory.ended(B, 0, silent_for=10.0)

    name = "epp_endpoint_errors_total"
    assert value_of(memory.metrics, name, endpoint_name=A.name) == 2
    assert value_of(memory.metrics, name, endpoint_name=B.name) == 1


def test_an_answer_in_between_starts_the_count_anew() -> None:
    memory = Memory()
    memory.answers(A, *[503] * 4, 200, *[503] * 4)

    assert memory.left_out() == set()


def test_a_request_without_an_answer_is_no_error_and_no_success() -> None:
    memory = Memory()
    memory.answers(A, *[503] * 4, 0, 503)

    assert memory.left_out() == {A}


def test_clients_that_give_up_after_a_long_silence_count_as_errors() -> None:
    memory = Memory()
    for _ in range(5):
        memory.memory.ended(A, 0, silent_for=9.9)
    assert memory.left_out() == set()

    for _ in range(5):
        memory.memory.ended(A, 0, silent_for=10.0)

    assert memory.left_out() == {A}


def test_after_the_ejection_one_request_at_a_time_probes_the_endpoint() -> None:
    memory = Memory()
    memory.answers(A, *[503] * 5)
    memory.now += 5.0
    assert memory.left_out() == set()

    memory.memory.picked(A)
    assert memory.left_out() == {A}
    memory.memory.ended(A, 200)

    assert memory.memory.among(POOL) is POOL
    assert memory.ejected == 0


def test_a_probe_that_fails_doubles_the_ejection_up_to_its_limit() -> None:
    memory = Memory()
    memory.answers(A, *[503] * 5)
    for seconds in (5, 10, 20, 40, 80, 160, 300, 300):
        memory.now += seconds - 0.5
        assert memory.left_out() == {A}, seconds
        memory.now += 0.5
        assert memory.left_out() == set(), seconds
        memory.answers(A, 503)


def test_answers_to_requests_from_before_the_ejection_do_not_lengthen_it() -> None:
    memory = Memory()
    memory.answers(A, *[503] * 9)
    memory.now += 5.0

    assert memory.left_out() == set()


def test_never_more_than_half_of_the_candidates_are_left_out() -> None:
    memory = Memory()
    for endpoint in POOL:
        memory.answers(endpoint, *[503] * 5)
        memory.now += 0.1

    assert memory.left_out() == {C, D}
    assert memory.left_out((A,)) == set()


def test_an_endpoint_that_is_gone_is_forgotten() -> None:
    memory = Memory()
    memory.answers(A, *[503] * 5)

    memory.memory.forget([A])

    assert memory.memory.among(POOL) is POOL


def test_errors_of_an_endpoint_that_has_left_are_nobodys() -> None:
    memory = Memory()
    memory.pool = (B, C, D)
    memory.memory.forget([A])

    memory.answers(A, *[503] * 6)

    assert memory.ejected == 0
    assert memory.left_out() == set()


def test_zero_errors_turn_it_off() -> None:
    memory = Memory(OutlierSettings(consecutive_errors=0))
    memory.answers(A, *[503] * 50)

    assert memory.memory.among(POOL) is POOL


@given(
    st.lists(
        st.tuples(st.sampled_from(POOL), st.sampled_from([0, 200, 500, 503]), st.floats(0, 20)),
        max_size=60,
    )
)
def test_whatever_happens_half_stays_and_success_brings_everybody_back(
    script: list[tuple[Endpoint, int, float]],
) -> None:
    memory = Memory(OutlierSettings(consecutive_errors=2))
    for endpoint, status, seconds in script:
        memory.answers(endpoint, status)
        memory.now += seconds
        assert len(memory.left_out()) <= len(POOL) // 2
    for endpoint in POOL:
        memory.answers(endpoint, 200)

    assert memory.memory.among(POOL) is POOL
    assert memory.ejected == 0


def test_who_is_ejected_is_told_until_it_works_again() -> None:
    memory = Memory()
    assert memory.memory.problem is None

    memory.answers(A, *[503] * 5)
    memory.answers(B, 503)
    assert memory.memory.problem == "1 of 4 endpoints are ejected: 10.0.0.1:8000"
    assert [memory.memory.is_ejected(each) for each in (A, B)] == [True, False]

    memory.now += 5.0
    memory.answers(A, 200)
    assert memory.memory.problem is None
    assert not memory.memory.is_ejected(A)
    assert not memory.memory.is_distrusted(A)


def test_nobody_is_told_to_be_ejected_once_the_time_is_over_though_no_request_comes() -> None:
    memory = Memory()
    memory.answers(A, *[503] * 5)
    memory.now += 4.9
    assert (memory.ejected, memory.memory.is_ejected(A)) == (1, True)

    memory.now += 0.1

    assert (memory.ejected, memory.memory.is_ejected(A)) == (0, False)
    assert memory.memory.problem is None
    assert memory.memory.is_distrusted(A)


def test_an_endpoint_counts_as_ejected_while_a_request_probes_it() -> None:
    memory = Memory()
    memory.answers(A, *[503] * 5)
    memory.now += 5.0

    memory.memory.picked(A)
    assert (memory.ejected, memory.memory.is_ejected(A)) == (1, True)

    memory.memory.ended(A, 0)
    assert (memory.ejected, memory.memory.is_ejected(A)) == (0, False)


def test_of_many_that_are_ejected_the_first_are_named() -> None:
    memory = Memory()
    memory.pool = [endpoint_of(f"e{number}") for number in range(MOST_NAMED + 2)]
    for endpoint in memory.pool:
        memory.answers(endpoint, *[503] * 5)

    assert str(memory.memory.problem).endswith(f".{MOST_NAMED - 1}:8000, and 2 more")
