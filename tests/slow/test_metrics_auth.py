"""Scrapes of the metrics port with tokens of a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.fakes.pickers.applications import options_for_tests, running
from tests.kube.caller import Caller
from tests.kube.harness import ControlPlane
from tests.kube.installation import install

pytestmark = pytest.mark.slow

SECONDS = 20
RBAC = "rbac.authorization.k8s.io"
PickerOf = Callable[[str], AbstractAsyncContextManager[aiohttp.ClientSession]]


class Scraper:
    """A ServiceAccount that reads the metrics port of a picker."""

    def __init__(self, admin: Caller, control_plane: ControlPlane, namespace: str) -> None:
        self._admin = admin
        self._control_plane = control_plane
        self._namespace = namespace
        self._names = {"name": "prometheus", "namespace": namespace}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": self._names}
        self._uid: str = admin.create(account)["metadata"]["uid"]

    def bind(self) -> None:
        """Give it the ClusterRole for scrapers."""
        self._admin.create(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"scraper-{self._namespace}"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "epp-metrics-reader"},
                "subjects": [{"kind": "ServiceAccount", **self._names}],
            }
        )

    def token(self, *, expires_in_seconds: float = 3600) -> str:
        """A token of its own, another one each time it lives for another time."""
        return self._control_plane.credentials.token_of(
            self._namespace, "prometheus", self._uid, expires_in_seconds=expires_in_seconds
        )


@pytest.fixture
def scraper(admin: Caller, control_plane: ControlPlane, namespace: str) -> Scraper:
    return Scraper(admin, control_plane, namespace)


@pytest.fixture
def picker_of(
    admin: Caller, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> PickerOf:
    @asynccontextmanager
    async def picker_of(overlay: str) -> AsyncIterator[aiohttp.ClientSession]:
        """A picker with the rights of an overlay, by its metrics port."""
        account = install(overlay, admin, control_plane, namespace, tmp_path)
        options = options_for_tests(
            pool_name="model-servers",
            pool_namespace=namespace,
            kubeconfig=control_plane.kubeconfig(account.token()),
            metrics_endpoint_auth=None,
        )
        async with (
            running(options) as (_, ports),
            aiohttp.ClientSession(f"http://127.0.0.1:{ports.metrics}") as session,
        ):
            yield session

    return picker_of


async def get(picker: aiohttp.ClientSession, token: str, path: str = "/metrics") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"}
    async with picker.get(path, headers=headers) as response:
        return response.status, await response.text()


async def until_status(wanted: int, picker: aiohttp.ClientSession, token: str) -> None:
    """Return once rights that were given a moment ago are in force."""
    async with asyncio.timeout(SECONDS):
        while (await get(picker, token))[0] != wanted:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.05)


async def test_a_service_account_reads_metrics_with_the_role_and_not_without(
    picker_of: PickerOf, scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epp.admin.access.DENIED_SECONDS", 0.0)
    async with picker_of("overlays/metrics-auth") as picker:
        await until_status(403, picker, scraper.token())
        _, why = await get(picker, scraper.token())
        assert "may not get /metrics" in why
        scraper.bind()

        await until_status(200, picker, scraper.token())

        _, page = await get(picker, scraper.token())
        assert 'epp_metrics_port_rejections_total{reason="invalid-token"} 0' in page
        assert (await get(picker, scraper.token(), "/debug/plugins/state"))[0] == 403


async def test_tokens_that_are_no_more_or_never_were_are_refused(
    picker_of: PickerOf, scraper: Scraper
) -> None:
    expired = scraper.token(expires_in_seconds=-60)
    forged = f"{scraper.token()[:-8]}AAAAAAAA"
    async with picker_of("overlays/metrics-auth") as picker:
        await until_status(403, picker, scraper.token())

        for token in (expired, forged, "made-up"):
            assert await get(picker, token) == (401, "the token is not valid\n")


async def test_without_the_rights_to_ask_a_scrape_is_told_what_is_missing(
    picker_of: PickerOf, scraper: Scraper
) -> None:
    async with picker_of("base") as picker:
        status, why = await get(picker, scraper.token())

        assert status == 503
        assert "may not create tokenreviews.authentication.k8s.io" in why
        assert "ClusterRole epp-metrics-auth" in why
        assert (await get(picker, "", "/healthz"))[0] == 200
