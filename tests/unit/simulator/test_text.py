from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.simulator.settings import Mode, SimulatorSettings
from epp.simulator.text import Writer, token_count


def _writer(mode: Mode = Mode.RANDOM, seed: int = 0) -> Writer:
    return Writer(SimulatorSettings(mode=mode, seed=seed, default_output_tokens=8))


def test_the_same_seed_and_prompt_give_the_same_answer() -> None:
    first = _writer().answer(b"prompt", "", 20)

    assert _writer().answer(b"prompt", "", 20) == first
    assert _writer().answer(b"another", "", 20) != first
    assert _writer(seed=1).answer(b"prompt", "", 20) != first


@pytest.mark.parametrize(
    ("limit", "tokens", "reason"), [(None, 8, "stop"), (3, 3, "length"), (20, 20, "length")]
)
def test_a_random_answer_is_as_long_as_asked(limit: int | None, tokens: int, reason: str) -> None:
    output = _writer().answer(b"prompt", "", limit)

    assert (len(output.pieces), output.finish_reason) == (tokens, reason)
    assert {token_count(piece.encode()) for piece in output.pieces} == {1}


@given(st.text(), st.integers(1, 5))
def test_an_echo_repeats_the_text_up_to_the_limit(text: str, limit: int) -> None:
    whole = _writer(Mode.ECHO).answer(b"", text, None)
    short = _writer(Mode.ECHO).answer(b"", text, limit)

    assert "".join(whole.pieces) == text
    assert whole.finish_reason == "stop"
    assert "".join(short.pieces) == text[: 4 * limit]
    assert short.finish_reason == ("length" if len(text) > 4 * limit else "stop")
