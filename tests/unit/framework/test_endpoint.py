from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.endpoint import EndpointLoad


@given(st.lists(st.booleans()))
def test_what_is_in_flight_is_what_was_taken_and_never_negative(steps: list[bool]) -> None:
    """Pitfall 48: a release too many is a fault of whoever calls, and changes nothing."""
    load = EndpointLoad()
    in_flight = 0

    for is_taken in steps:
        if is_taken:
            load.acquire()
            in_flight += 1
        elif in_flight:
            load.release()
            in_flight -= 1
        else:
            with pytest.raises(ValueError, match="release without acquire"):
                load.release()
        assert load.in_flight == in_flight
