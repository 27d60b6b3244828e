"""What keeps a resource from being watched, said once for as long as it stays so."""

from __future__ import annotations

from typing import Any

import structlog

from epp.kubernetes.observer import WatchErrorKind
from epp.kubernetes.resource import Resource

log = structlog.get_logger(__name__)


class FailureReport:
    """Log lines of one reflector, on change of state only."""

    def __init__(self, resource: Resource[Any]) -> None:
        self._resource = resource
        self._reported: tuple[WatchErrorKind, str] | None = None
        self.problem: str | None = None
        """What the last attempt failed for, if it failed."""

    def failed(self, kind: WatchErrorKind, verb: str, problem: str, retry_in: float) -> None:
        """An attempt to list or watch has failed."""
        if kind is WatchErrorKind.EXPIRED:
            return  # a restart of the API server is enough, and the relist is counted
        self.problem = f"{verb} {self._resource.name}: {problem}"
        if self._reported == (kind, verb):
            return
        self._reported = kind, verb
        resource = self._resource
        if resource.is_optional and kind is WatchErrorKind.NOT_FOUND:
            log.info(
                "optional resource is not served, going on without it",
                resource=resource.name,
                group=resource.group,
            )
            return
        is_error = kind is WatchErrorKind.FORBIDDEN and not resource.is_optional
        report = log.error if is_error else log.warning
        report(
            _EVENTS.get(kind, "watch failed, what is known stays"),
            verb=verb,
            resource=resource.name,
            group=resource.group,
            namespace=resource.namespace,
            problem=problem,
            retry_in=round(retry_in, 1),
        )

    def works(self) -> None:
        """The API server told what it was asked for."""
        self.problem = None
        if self._reported is not None:
            self._reported = None
            log.info(
                "watch works again",
                resource=self._resource.name,
                namespace=self._resource.namespace,
            )


_EVENTS = {
    WatchErrorKind.FORBIDDEN: "access is missing, grant it by a Role",
    WatchErrorKind.UNAUTHORIZED: "the API server does not accept the credentials",
    WatchErrorKind.NOT_FOUND: "resource is not served, its CustomResourceDefinition is missing",
    WatchErrorKind.UNREACHABLE: "API server is unreachable, what is known stays",
}
