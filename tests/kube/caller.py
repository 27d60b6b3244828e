"""Calls to the API server that use nothing of the code under test."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from tests.kube.credentials import ADMIN_TOKEN
from tests.kube.harness import ControlPlane

Manifest = Mapping[str, Any]

CLUSTER_SCOPED = (
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "TokenReview",
    "SubjectAccessReview",
)
_DEFINITION_SECONDS = 60.0
_BUSY_SECONDS = 30.0


class Refused(Exception):
    """The API server said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Caller:
    """One user of the API server; calls block."""

    def __init__(self, control_plane: ControlPlane, token: str = ADMIN_TOKEN) -> None:
        self._client = httpx.Client(
            base_url=control_plane.url,
            verify=control_plane.tls,
            headers={"authorization": f"Bearer {token}"},
            timeout=30,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **query: str,
    ) -> dict[str, Any]:
        """One call; raises `Refused`."""
        response = self._answer(method, path, body, query, content_type)
        if not response.is_success:
            raise Refused(response.status_code, response.text)
        answer: dict[str, Any] = response.json()
        return answer

    def status(self, method: str, path: str, body: Any = None, **query: str) -> int:
        """The status of one call, whatever the answer."""
        return self._answer(method, path, body, query).status_code

    def create(self, manifest: Manifest, **query: str) -> dict[str, Any]:
        """Create the object, in the namespace it names."""
        return self.request("POST", collection_of(manifest), dict(manifest), **query)

    def apply(self, manifest: Manifest) -> dict[str, Any]:
        """What `kubectl apply --server-side` does; unknown fields are errors."""
        return self.request(
            "PATCH",
            path_of(manifest),
            dict(manifest),
            content_type="application/apply-patch+yaml",
            fieldManager="test",
            fieldValidation="Strict",
        )

    def patch(self, manifest: Manifest, change: Manifest, subresource: str = "") -> dict[str, Any]:
        """Merge a change into the object a manifest names."""
        path = f"{path_of(manifest)}{subresource}"
        kind = "application/merge-patch+json"
        return self.request("PATCH", path, dict(change), content_type=kind)

    def delete(self, manifest: Manifest, **query: str) -> None:
        """Delete the object a manifest names."""
        self.request("DELETE", path_of(manifest), **query)

    def install_definition(self, path: Path) -> None:
        """Create the CustomResourceDefinition of a file."""
        self.define(yaml.safe_load(path.read_text()))

    def remove_definition(self, path: Path) -> None:
        """Delete the CustomResourceDefinition of a file, and wait until another may take its place.

        That is only after its objects are gone.
        """
        definition = yaml.safe_load(path.read_text())
        self.delete(definition)
        self._wait(lambda: self.status("GET", path_of(definition)) == 404)

    def define(self, definition: Manifest) -> None:
        """Create a CustomResourceDefinition and wait until its objects can be listed."""
        self.create(definition)
        spec = definition["spec"]
        version = spec["versions"][0]["name"]
        listing = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
        self._wait(lambda: "items" in self.request("GET", listing))

    def _answer(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str],
        content_type: str = "application/json",
    ) -> httpx.Response:
        deadline = time.monotonic() + _BUSY_SECONDS
        headers = {"content-type": content_type}
        while True:
            answer = self._client.request(method, path, json=body, params=query, headers=headers)
            # So it asks to come again, for a moment after a definition has changed too.
            if answer.status_code != 429 or time.monotonic() > deadline:
                return answer
            time.sleep(0.1)

    def _wait(self, claim: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _DEFINITION_SECONDS
        while True:
            try:
                if claim():
                    return
            except Refused as refused:
                # For a second the server knows nothing of it, or is not ready for it.
                if refused.status not in (404, 503):
                    raise
            assert time.monotonic() < deadline
            time.sleep(0.05)


def collection_of(manifest: Manifest) -> str:
    """The path objects of this kind are created at."""
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    plural = re.sub(r"(?<![aeiou])ys$", "ies", f"{kind.lower()}s")
    if kind in CLUSTER_SCOPED:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{manifest['metadata']['namespace']}/{plural}"


def path_of(manifest: Manifest) -> str:
    """The path of the object itself."""
    return f"{collection_of(manifest)}/{manifest['metadata']['name']}"
