"""What requests under way add to endpoints, stage by stage, to be taken back exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint, EndpointId
    from epp.framework.scheduling_results import SchedulingResult


class SentStage(ABC):
    """What one request adds to one endpoint for one profile."""

    __slots__ = ("endpoint",)

    def __init__(self, endpoint: EndpointId) -> None:
        self.endpoint = endpoint

    @abstractmethod
    def first_chunk(self) -> None:
        """The prompt is computed; later calls do nothing."""

    @abstractmethod
    def over(self) -> None:
        """Take back all that is left; later calls do nothing."""


S = TypeVar("S", bound=SentStage)


class SentRequest(Generic[S]):
    """One request under way: what it adds, by profile."""

    __slots__ = ("_prefill", "_primary", "stages")

    def __init__(self, result: SchedulingResult) -> None:
        self.stages: dict[str, S] = {}
        self._primary = result.primary
        self._prefill = result.roles.get("prefill", "prefill")

    def served_by(self, endpoint: Endpoint, sent_there: Callable[[S], S]) -> bool:
        """Move what was sent to another endpoint than the one that serves; whether there was any.

        `sent_there` makes of the stage as it was the one at `endpoint`.
        """
        stage = self.stages.get(self._primary)
        if stage is None or stage.endpoint == endpoint.id:
            return False
        self.stages[self._primary] = sent_there(stage)
        stage.over()
        return True

    def first_chunk(self) -> None:
        """All prompts are computed, and a prefill stage is done."""
        if self._prefill != self._primary and self._prefill in self.stages:
            self.stages.pop(self._prefill).over()
        for stage in self.stages.values():
            stage.first_chunk()

    def over(self) -> None:
        """Take back whatever is left."""
        for stage in self.stages.values():
            stage.over()
