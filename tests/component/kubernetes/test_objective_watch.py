"""InferenceObjectives of a cluster: both groups, optional, and possibly later than the picker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from structlog.testing import capture_logs

from epp.datastore.datastore import Datastore
from epp.datastore.inference_objective import GROUPS
from epp.kubernetes.client import KubeClient
from epp.kubernetes.objective_watch import ObjectiveWatch
from epp.kubernetes.observer import WatchErrorKind
from tests.fakes.eventually import eventually
from tests.fakes.kubernetes.api import FakeKubeApi
from tests.fakes.kubernetes.objects import Manifest
from tests.fakes.kubernetes.watching import CountingObserver, context_of, running

NEW, OLD = GROUPS


def objective(
    name: str, priority: int | None = None, *, group: str = NEW, pool: str = "pool"
) -> Manifest:
    spec: Manifest = {"poolRef": {"group": "inference.networking.k8s.io", "name": pool}}
    if priority is not None:
        spec["priority"] = priority
    return {
        "apiVersion": f"{group}/v1alpha2",
        "kind": "InferenceObjective",
        "metadata": {"name": name, "namespace": "models"},
        "spec": spec,
    }


class Followed:
    def __init__(self) -> None:
        self.datastore = Datastore()
        self.observer = CountingObserver()

    async def until(self, **priorities: int) -> None:
        await eventually(lambda: dict(self.datastore.priorities) == priorities)


@asynccontextmanager
async def followed(client: KubeClient) -> AsyncIterator[Followed]:
    followed = Followed()
    watch = ObjectiveWatch(
        context_of(client, followed.observer),
        pool_name="pool",
        namespace="models",
        datastore=followed.datastore,
    )
    async with running(watch.run()):
        yield followed


async def test_objectives_of_this_pool_give_priorities(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.restore_definition(NEW, "inferenceobjectives")
    await kube.create(objective("gold", 5))
    await kube.create(objective("plain"))
    await kube.create(objective("foreign", 9, pool="other"))

    async with followed(client) as objectives:
        await objectives.until(gold=5, plain=0)
        await kube.patch(objective("gold"), {"spec": {"priority": 7}})
        await objectives.until(gold=7, plain=0)
        await kube.delete(objective("plain"))
        await objectives.until(gold=7)


async def test_the_older_group_counts_too_and_the_newer_one_wins(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    for group in GROUPS:
        kube.restore_definition(group, "inferenceobjectives")
    await kube.create(objective("gold", 1, group=OLD))
    await kube.create(objective("batch", -1, group=OLD))
    await kube.create(objective("gold", 5))

    with capture_logs() as logs:
        async with followed(client) as objectives:
            await objectives.until(gold=5, batch=-1)

    assert [log["log_level"] for log in logs if "both API groups" in log["event"]] == ["warning"]


async def test_a_definition_that_is_missing_is_no_error_and_may_come_later(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    with capture_logs() as logs:
        async with followed(client) as objectives:
            await eventually(
                lambda: objectives.observer.failures[WatchErrorKind.NOT_FOUND] >= 2 * len(GROUPS)
            )
            kube.restore_definition(NEW, "inferenceobjectives")
            await kube.create(objective("gold", 5))
            await objectives.until(gold=5)

    about_missing = [log for log in logs if log["event"].startswith("optional resource")]
    assert [log["log_level"] for log in about_missing] == ["info"] * len(GROUPS)


async def test_a_right_that_is_missing_is_one_warning(
    kube: FakeKubeApi, client: KubeClient
) -> None:
    kube.restore_definition(NEW, "inferenceobjectives")
    kube.forbid("list", "inferenceobjectives")
    kube.forbid("watch", "inferenceobjectives")

    with capture_logs() as logs:
        async with followed(client) as objectives:
            await eventually(lambda: objectives.observer.failures[WatchErrorKind.FORBIDDEN] >= 2)

    levels = {log["log_level"] for log in logs if "access is missing" in log["event"]}
    assert levels == {"warning"}
