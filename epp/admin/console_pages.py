"""The console: `/` is a page for people, made of the files in `console/`, fed by JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from aiohttp import web

from epp.admin.json_answers import json_answer

FOLDER = Path(__file__).parent / "console"
INDEX = "index.html"
CONTENT_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class ConfigurationView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What this process runs, and what it picks by."""

    version: str
    source: str
    """Where the configuration is from."""
    profiles: Sequence[str]
    """What is picked by, in a line for each scheduling profile."""
    document: str
    """YAML, everything filled in: as `epp config check` prints it."""
    problem: str | None
    """Why the configuration file as it is now is not in force."""


class ConsolePages:
    """Serves the page, its files, and `/configuration`; `/pool` and `/decisions` are others'."""

    def __init__(self, read_configuration: Callable[[], ConfigurationView]) -> None:
        self._read_configuration = read_configuration
        # All at once: they are small, and what is asked for is never made into a path.
        self._files = {
            path.name: path.read_bytes()
            for path in FOLDER.iterdir()
            if path.suffix in CONTENT_TYPES
        }

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Serve them."""
        router.add_get("/", self._index)
        router.add_get("/console/{name}", self._file)
        router.add_get("/configuration", self._configuration)

    async def _index(self, _request: web.Request) -> web.Response:
        return self._answer(INDEX)

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._files or name == INDEX:
            raise web.HTTPNotFound
        return self._answer(name)

    def _answer(self, name: str) -> web.Response:
        content_type = CONTENT_TYPES[Path(name).suffix]
        return web.Response(body=self._files[name], content_type=content_type, charset="utf-8")

    async def _configuration(self, _request: web.Request) -> web.Response:
        return json_answer(self._read_configuration())
