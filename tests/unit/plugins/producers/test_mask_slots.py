"""Slots are given again only when nothing is left of whoever had them."""

from __future__ import annotations

from epp.plugins.producers.mask_slots import MaskSlots


def test_everyone_has_a_bit_of_their_own() -> None:
    slots = MaskSlots()

    assert [slots.take(), slots.take(), slots.take()] == [1, 2, 4]
    assert (slots.width, slots.live) == (3, 7)


def test_a_slot_is_free_after_the_rest_of_a_round_and_a_whole_one() -> None:
    slots = MaskSlots()
    first = slots.take()
    slots.retire(first)
    assert (slots.live, slots.retired) == (0, 1)

    slots.end_round()
    assert slots.take() != first
    slots.end_round()
    assert slots.retired == 0
    assert slots.take() == first


def test_whoever_looks_at_masks_can_tell_that_they_mean_something_else() -> None:
    slots = MaskSlots()
    seen = [slots.changes]
    bit = slots.take()
    seen.append(slots.changes)
    slots.retire(bit)
    seen.append(slots.changes)

    slots.retire(0)

    assert len(set(seen)) == 3
    assert slots.changes == seen[-1]
