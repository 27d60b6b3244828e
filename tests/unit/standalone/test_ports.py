from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from epp.framework.errors import ConfigError
from epp.standalone.ports import FreePorts, MovedPort


@pytest.fixture
def taken() -> Iterator[int]:
    """A port somebody listens on, with a free one in reach after it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_free_port_is_given_as_wanted() -> None:
    ports = FreePorts()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]

    assert ports.take("listener", free) == free
    assert ports.moved == []


def test_a_taken_port_moves_to_a_later_one_and_is_told(taken: int) -> None:
    ports = FreePorts()

    given = ports.take("listener", taken)

    assert given > taken
    assert ports.moved == [MovedPort("listener", taken, given)]


def test_no_port_is_given_twice(taken: int) -> None:
    ports = FreePorts()

    given = [ports.take("simulator", taken) for _ in range(3)]

    assert len(set(given)) == 3


def test_zero_means_any_free_port_and_is_no_move() -> None:
    ports = FreePorts()

    given = {ports.take("metrics", 0), ports.take("metrics", 0)}

    assert len(given) == 2
    assert 0 not in given
    assert ports.moved == []


def test_the_search_ends_at_the_last_port() -> None:
    ports = FreePorts()
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", 65535))
        except OSError:
            pytest.skip("port 65535 is in use")
        listener.listen()

        with pytest.raises(
            ConfigError, match=r"metrics: no free port on 127\.0\.0\.1 from 65535 to"
        ):
            ports.take("metrics", 65535)


def test_an_address_of_another_machine_is_named_in_the_error() -> None:
    with pytest.raises(ConfigError, match=r"can't listen on 192\.0\.2\.1 port 8080"):
        FreePorts().take("listener", 8080, "192.0.2.1")
