from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epp.simulator.prefix_cache import Lease, PrefixCache, block_hashes

A, B, C, D = b"a", b"b", b"c", b"d"


def _keep(cache: PrefixCache, *hashes: bytes) -> None:
    cache.release(cache.lease(hashes, 0), ())


def test_hashes_agree_up_to_the_first_block_that_differs() -> None:
    one = block_hashes(b"", b"aaaabbbbcccc", 4, 10)
    other = block_hashes(b"", b"aaaaBBBBcccc", 4, 10)

    assert one[0] == other[0]
    assert not set(one[1:]) & set(other[1:])


def test_another_adapter_shares_no_block() -> None:
    assert not set(block_hashes(b"x", b"aaaabbbb", 4, 9)) & set(
        block_hashes(b"y", b"aaaabbbb", 4, 9)
    )


def test_only_full_blocks_within_the_limit_are_hashed() -> None:
    assert len(block_hashes(b"", b"aaaabbbbcc", 4, 10)) == 2
    assert len(block_hashes(b"", b"aaaabbbbcc", 4, 1)) == 1


def test_released_blocks_match_until_room_is_needed_and_the_oldest_goes_first() -> None:
    cache = PrefixCache(2)
    _keep(cache, A)
    _keep(cache, B)
    _keep(cache, A)

    _keep(cache, C)

    assert [cache.matching_blocks([digest]) for digest in (A, B, C)] == [1, 0, 1]


def test_the_tail_of_a_chain_is_forgotten_before_its_head() -> None:
    cache = PrefixCache(3)
    _keep(cache, A, B, C)

    _keep(cache, D)

    assert cache.matching_blocks([A, B, C]) == 2


def test_blocks_in_use_are_never_forgotten() -> None:
    cache = PrefixCache(2)
    held = cache.lease([A], 0)
    _keep(cache, B)

    _keep(cache, C)

    assert cache.matching_blocks([A]) == 1
    cache.release(held, ())


def test_usage_counts_shared_blocks_once_and_own_blocks_when_filled() -> None:
    cache = PrefixCache(10)
    first = cache.lease([A, B], 2)
    second = cache.lease([A, B], 0)
    assert cache.usage == 0.2

    cache.fill(first, 1)
    assert cache.usage == 0.3

    cache.release(first, [C])
    cache.release(second, ())
    assert cache.usage == 0
    assert cache.matching_blocks([A, B]) == 2


def test_a_sequence_fits_when_shared_and_reserved_blocks_leave_room() -> None:
    cache = PrefixCache(4)
    cache.lease([A, B], 1)

    assert cache.fits([A, B], 1)
    assert not cache.fits([A, B], 2)
    assert not cache.fits([C, D], 0)


def test_a_sequence_larger_than_the_cache_fits_alone() -> None:
    cache = PrefixCache(2)

    assert cache.fits([A], 100)
    lease = cache.lease([A], 100)
    cache.fill(lease, 100)

    assert cache.usage == 1


@given(
    st.lists(
        st.tuples(
            st.lists(st.binary(min_size=1, max_size=1), unique=True, max_size=8), st.integers(0, 9)
        ),
        max_size=40,
    ),
)
def test_usage_stays_between_0_and_1_and_ends_at_0(
    sequences: list[tuple[list[bytes], int]],
) -> None:
    cache = PrefixCache(8)
    leases: list[Lease] = []
    for hashes, reserved in sequences:
        if cache.fits(hashes, reserved):
            lease = cache.lease(hashes, reserved)
            cache.fill(lease, reserved)
            leases.append(lease)
        elif leases:
            cache.release(leases.pop(0), [b"computed"])
        assert 0 <= cache.usage <= 1
    for lease in leases:
        cache.release(lease, ())
    assert cache.usage == 0
