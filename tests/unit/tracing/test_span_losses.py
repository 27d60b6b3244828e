from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from epp.tracing.span_losses import NOT_TAKEN, QUEUE_FULL, SpanLosses

ROOM = 4


@given(steps=st.lists(st.sampled_from(["put", "send", "refuse"]), max_size=60))
def test_every_span_is_sent_refused_dropped_or_waits(steps: list[str]) -> None:
    losses, queue = SpanLosses(ROOM), deque[None](maxlen=ROOM)
    put = sent = refused = 0

    for step in steps:
        if step == "put":
            losses.put()
            queue.append(None)
            put += 1
            continue
        batch = min(2, len(queue))
        for _ in range(batch):
            queue.pop()
        losses.taken_out(batch)
        if step == "refuse":
            losses.refused(batch)
            refused += batch
        else:
            sent += batch

    dropped = put - sent - refused - len(queue)
    assert losses.by_reason() == {QUEUE_FULL: dropped, NOT_TAKEN: refused}


def test_what_is_taken_out_while_others_come_evens_out() -> None:
    losses = SpanLosses(ROOM)
    for _ in range(ROOM):
        losses.put()

    losses.put()  # two had just left the queue, which nobody had been told of
    losses.taken_out(2)
    losses.put()
    losses.put()  # the queue is full again, and drops one

    assert losses.by_reason()[QUEUE_FULL] == 1
