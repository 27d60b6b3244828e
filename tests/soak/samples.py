"""What a picker held while it was under way, minute by minute."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fakes.programs.serving import ServingPicker, VitalSigns
from tests.soak.ledger import Ledger, Period

SAMPLE_SECONDS = 5.0
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Sample:
    """Vital signs at one moment."""

    minute: int
    signs: VitalSigns


async def sample(picker: ServingPicker, ledger: Ledger, samples: list[Sample]) -> None:
    """Scrape the picker until cancelled."""
    while True:
        signs = await asyncio.to_thread(picker.vital_signs)
        samples.append(Sample(ledger.minute, signs))
        await asyncio.sleep(SAMPLE_SECONDS)


def resident_growth(samples: Sequence[Sample]) -> tuple[int, int]:
    """The fewest resident bytes in the first third of the samples, and in the last: what a leak
    takes is never given back, what the largest bodies took is, in its time."""
    sizes = [each.signs.resident_bytes for each in samples]
    third = max(len(sizes) // 3, 1)
    return min(sizes[:third]), min(sizes[-third:])


def table(samples: Sequence[Sample], ledger: Ledger) -> str:
    """A line for each minute; where several samples fall into it, the largest values."""
    head = (
        f"{'minute':>6} {'done':>6} {'picks':>6} {'reject':>6} {'left':>6}"
        f" {'p50 ms':>7} {'p99 ms':>7}"
        f" {'RSS MiB':>8} {'files':>6} {'threads':>7} {'tasks':>6} {'streams':>7} {'flying':>6}"
        f" {'held KiB':>9}"
    )
    minutes = sorted({each.minute for each in samples} | set(ledger.periods))
    return "\n".join([head, *(_row(minute, samples, ledger.periods[minute]) for minute in minutes)])


def _row(minute: int, samples: Sequence[Sample], period: Period) -> str:
    signs = [each.signs for each in samples if each.minute == minute]
    row = (
        f"{minute:>6} {period.finished:>6} {len(period.picks):>6} {period.rejected:>6}"
        f" {period.disconnected:>6}"
        f" {period.pick_milliseconds(50):>7.1f} {period.pick_milliseconds(99):>7.1f}"
    )
    if not signs:
        return row
    return (
        f"{row} {max(each.resident_bytes for each in signs) / MIB:>8.1f}"
        f" {max(each.open_files for each in signs):>6}"
        f" {max(each.threads for each in signs):>7} {max(each.tasks for each in signs):>6}"
        f" {max(each.streams for each in signs):>7} {max(each.in_flight for each in signs):>6}"
        f" {max(each.buffered_bytes for each in signs) / 1024:>9.0f}"
    )
