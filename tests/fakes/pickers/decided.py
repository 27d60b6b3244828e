"""A request path in this process, without a gateway: requests that are decided, or would be."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence

from epp.app.request_path import RequestPathSettings, build_request_path
from epp.datastore.datastore import Datastore
from epp.framework.endpoint import Endpoint
from epp.framework.headers import Headers
from epp.framework.plugin import Plugin
from epp.observability.metrics import Metrics
from epp.request_control.active_request import ActiveRequest
from epp.request_control.decision_log import Decision, DecisionLog
from epp.request_control.incoming import IncomingRequest
from tests.fakes.pickers.picker import Configured, pods, pool

BODY = {"model": "m", "prompt": "What is the time? " * 100}
QUEUES = """
plugins: [{type: queue-scorer}, {type: max-score-picker}]
schedulingProfiles:
- {name: default, plugins: [{pluginRef: queue-scorer, weight: 2}, {pluginRef: max-score-picker}]}
"""


def incoming(
    body: Mapping[str, object] | bytes = BODY,
    headers: Mapping[str, str] | None = None,
    *,
    subset: object = None,
) -> IncomingRequest:
    """A completion, as the gateway room hands it over."""
    given = {":method": "POST", ":path": "/v1/completions", **(headers or {})}
    return IncomingRequest(
        headers=Headers((name, value.encode()) for name, value in given.items()),
        received_at=time.monotonic(),
        body=body if isinstance(body, bytes) else json.dumps(body).encode(),
        subset=subset,
    )


class Decided:
    """Decides by a configuration, among endpoints that nobody scrapes."""

    def __init__(
        self,
        addresses: Sequence[str] = ("10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"),
        *,
        config: str = QUEUES,
        own_plugins: Sequence[type[Plugin]] = (),
        labels: Mapping[str, Mapping[str, str]] | None = None,
        settings: RequestPathSettings | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.metrics = Metrics()
        self.datastore = Datastore()
        self.plugins = Configured(own_plugins, self.metrics, now)
        self.path = build_request_path(
            self.datastore,
            self.metrics,
            settings or RequestPathSettings(),
            plan=self.plugins.assemble(config).plan,
            rng=random.Random(1),
            now=now,
        )
        with self.datastore.batch():
            self.datastore.set_pool(pool())
            self.datastore.set_pods(pods(addresses, labels))
            self.datastore.mark_synced()

    @property
    def log(self) -> DecisionLog:
        """The last decisions."""
        assert self.path.decisions is not None
        return self.path.decisions

    def endpoint(self, address: str) -> Endpoint:
        return self.datastore.snapshot().by_address[address]

    def decide(self, request: IncomingRequest | None = None) -> ActiveRequest:
        """A request that is really sent somewhere."""
        return self.path.director.decide(request or incoming())

    async def rehearse(self, request: IncomingRequest | None = None) -> Decision:
        """The same, asked for only."""
        return await self.path.rehearsal.run(request or incoming())

    def page(self) -> bytes:
        """The metrics as they are now."""
        return b"".join(self.metrics.exposition()[0])
