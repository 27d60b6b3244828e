from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.data import DataType, Input, Output, Scope
from epp.framework.endpoint import Endpoint
from epp.testing import endpoint_of, request_of

POOL = tuple(endpoint_of(f"e{number}") for number in range(1, 6))
NUMBER: DataType[int] = DataType(name="Number", scope=Scope.CANDIDATE)

endpoints = st.lists(st.sampled_from(POOL), unique=True)


class Computed(Mapping[Endpoint, int]):
    """Values that are computed when they are asked for."""

    def __init__(self, values: dict[Endpoint, int]) -> None:
        self._values = values

    def __getitem__(self, endpoint: Endpoint) -> int:
        return self._values[endpoint]

    def __iter__(self) -> Iterator[Endpoint]:
        raise NotImplementedError("only asked for one by one")

    def __len__(self) -> int:
        return len(self._values)


@pytest.mark.parametrize("kind", [dict, Computed])
@given(told=endpoints, asked=endpoints | st.just(list(POOL)))
def test_values_come_in_the_order_of_the_endpoints_asked_for(
    kind: Callable[[dict[Endpoint, int]], Mapping[Endpoint, int]],
    told: list[Endpoint],
    asked: list[Endpoint],
) -> None:
    request = request_of()
    values = {endpoint: index for index, endpoint in enumerate(told)}
    Output(NUMBER, "p").put_all(request, kind(values))
    read = Input(NUMBER)
    read.bind("p")

    assert read.values(request, asked) == [values.get(endpoint) for endpoint in asked]


@given(order=st.permutations(POOL))
def test_values_of_all_candidates_are_found_in_any_order(order: list[Endpoint]) -> None:
    request = request_of()
    values = {endpoint: index for index, endpoint in enumerate(POOL)}
    Output(NUMBER, "p").put_all(request, values)
    read = Input(NUMBER)
    read.bind("p")

    assert read.values(request, order) == [values[endpoint] for endpoint in order]
