from __future__ import annotations

import pytest

from epp.support.wordless import wordless_traceback

PROMPT = "the prompt of a client"


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_a_traceback_names_kind_and_code() -> None:
    text = wordless_traceback(raised(KeyError(PROMPT)))

    assert text.splitlines()[-1] == "KeyError"
    assert "raise error" in text
    assert PROMPT not in text


def test_members_of_a_group_are_told_up_to_a_number() -> None:
    group = ExceptionGroup(PROMPT, [raised(ValueError(PROMPT)), *map(OSError, range(100))])

    text = wordless_traceback(group)

    assert "ValueError" in text
    assert text.count("OSError") < 10
    assert PROMPT not in text
