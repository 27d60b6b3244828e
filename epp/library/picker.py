"""Picks for requests of this process, by the same steps as for requests of a gateway."""

from __future__ import annotations

import inspect
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from epp.config.assembly import Assembly, assemble
from epp.config.loader import load_config
from epp.config.plugin_registry import PluginRegistry
from epp.datastore.inference_pool import FailureMode
from epp.framework.data_layer import Extractor
from epp.framework.endpoint import Endpoint, EndpointMetrics
from epp.framework.errors import ConfigError
from epp.framework.plugin import Plugin
from epp.library.members import Members
from epp.library.pick import BodyHooksAtOnce, Pick, headers_of
from epp.observability.metrics import Metrics
from epp.request_control.completion import Completion
from epp.request_control.director import Director
from epp.request_control.director_settings import DirectorSettings
from epp.request_control.incoming import IncomingRequest
from epp.request_control.outliers import OutlierMemory
from epp.request_control.reporting import Reporter


class Picker:
    """Chooses among endpoints that are added by hand. To be used by one thread at a time."""

    def __init__(
        self, assembly: Assembly, metrics: Metrics, rng: random.Random, now: Callable[[], float]
    ) -> None:
        _refuse_what_waits(assembly)
        self._assembly = assembly
        self._now = now
        self._members = Members(assembly.endpoint_listeners, now)
        self._outliers = OutlierMemory(metrics, lambda: self.endpoints, now=now)
        self._director = Director(
            datastore=self._members,
            plan=assembly.plan,
            outliers=self._outliers,
            metrics=metrics,
            on_end=Completion(BodyHooksAtOnce(), Reporter(metrics, now=now), self._outliers, now),
            settings=DirectorSettings(failure_mode=FailureMode.FAIL_CLOSE),
            rng=rng,
            now=now,
        )

    @classmethod
    def from_config(
        cls,
        text: str = "",
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        seed: int | None = None,
        allow_experimental: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> Picker:
        """A picker that does what an EndpointPickerConfig says; without one, what `serve` does.

        `plugins` are types of your own that are not installed, by name. With a
        `seed` picks are repeatable. Raises one `ConfigError` with everything that is wrong.
        """
        metrics, rng = Metrics(now=now), random.Random(seed)
        assembly = assemble(
            load_config(text),
            PluginRegistry.installed(plugins),
            metrics=metrics,
            rng=rng,
            allow_experimental=allow_experimental,
            allowed_with="allow_experimental=True",
            now=now,
        )
        return cls(assembly, metrics, rng, now)

    @property
    def warnings(self) -> Sequence[str]:
        """What in the configuration may not be meant, a line each."""
        return self._assembly.warnings

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        """Every plugin instance by name, those that were added too."""
        return self._assembly.plugins

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """All that were added and not removed."""
        return self._members.snapshot().endpoints

    def add(self, address: str, *, labels: Mapping[str, str] | None = None) -> Endpoint:
        """An endpoint that may be picked from now on: `ip:port`, or any name of your own.

        Added again, with other labels, it keeps what is known of it.
        """
        return self._members.add(address, labels or {})

    def remove(self, address: str) -> None:
        """Not to be picked any more; what is in flight there may be done later."""
        gone = self._members.remove(address)
        self._outliers.forget([gone])

    def observe(self, address: str, seen: EndpointMetrics | bytes) -> None:
        """What an endpoint says of itself: in numbers, or its metrics page as it came.

        A page is read by the extractors of the configuration, which raise `ExtractionError` for
        what is missing on it, after having applied the rest.
        """
        endpoint = self._members.get(address)
        if isinstance(seen, bytes):
            for extractor in self._page_extractors():
                extractor.extract(seen, endpoint, self._now())
            return
        updated_at = self._now() if seen.updated_at is None else seen.updated_at
        endpoint.state.metrics = replace(seen, updated_at=updated_at)

    def pick(
        self,
        *,
        model: str = "",
        prompt: str | Sequence[int] = "",
        headers: Mapping[str, str] | None = None,
        among: Sequence[str] | None = None,
        body: Mapping[str, Any] | None = None,
        path: str = "/v1/completions",
    ) -> Pick:
        """Choose an endpoint for a prompt (text or token ids), or for the body of any API.

        `among` names the endpoints that may be picked. Raises `Rejection` if there is none, or if
        the configuration turns the request away.
        """
        content = {"model": model, "prompt": prompt} if body is None else body
        incoming = IncomingRequest(
            headers=headers_of({":method": "POST", ":path": path, **(headers or {})}),
            received_at=self._now(),
            body=json.dumps(content).encode(),
            subset=None if among is None else list(among),
        )
        return Pick(self._director.decide(incoming))

    def _page_extractors(self) -> list[Extractor]:
        for _, extractors in self._assembly.sources:
            found = [each for each in extractors if isinstance(each, Extractor)]
            if any(each.fills_metrics for each in found):
                return found
        raise ConfigError("the configuration has no extractor of metrics pages")


def _refuse_what_waits(assembly: Assembly) -> None:
    hooks = assembly.plan.hooks.hooks
    waiting = [
        *hooks.waiting_producers,
        *(each for each in hooks.response_body if inspect.iscoroutinefunction(each.response_body)),
    ]
    if waiting:
        names = ", ".join(repr(plugin.name) for plugin in waiting)
        raise ConfigError(f"a pick of the library waits for nothing, but {names} would")
