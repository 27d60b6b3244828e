"""Clients that keep asking, and remember every answer."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Self

import httpx

from tests.fakes.programs.program import wait_until

CLIENT_TIMEOUT_SECONDS = 25.0
PAUSE_SECONDS = 0.01
"""Leaves time to the other processes, health checks among them."""


class Load:
    """Sends one request after another from several threads for as long as the context lasts."""

    def __init__(self, url: str, body: bytes, clients: int = 2) -> None:
        self._url = url
        self._body = body
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(clients)]
        self._outcomes: list[str] = []

    @property
    def outcomes(self) -> Counter[str]:
        """How often each status came, or each error of a connection."""
        return Counter(self._outcomes)

    def wait_for_more(self, outcome: str, number: int = 20) -> None:
        """Wait for this many more answers of a kind."""
        before = self.outcomes
        wait_until(
            lambda: self.outcomes[outcome] >= before[outcome] + number,
            f"{number} more answers with {outcome} after {before}",
        )

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        headers = {"content-type": "application/json"}
        with httpx.Client(timeout=CLIENT_TIMEOUT_SECONDS, headers=headers) as client:
            while not self._stop.wait(PAUSE_SECONDS):
                try:
                    answer = client.post(self._url, content=self._body)
                except httpx.TransportError as error:
                    self._outcomes.append(repr(error))
                else:
                    self._outcomes.append(str(answer.status_code))
