"""docs/kubernetes.md explains messages that are really logged."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_message_that_is_explained_is_one_of_the_log() -> None:
    explained = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/kubernetes.md").read_text(), re.M)
    source = "\n".join(path.read_text() for path in ROOT.glob("epp/**/*.py"))

    assert len(explained) >= 10
    assert [message for message in explained if f'"{message}"' not in source] == []
