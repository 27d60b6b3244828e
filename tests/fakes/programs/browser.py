"""A headless Chromium, driven by its DevTools protocol: pages as people meet them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-port=0",
    "--window-size=1280,900",
)
LISTENING = re.compile(rb"DevTools listening on (ws://\S+)")
PATIENCE = 30.0
NO_GOODBYE = aiohttp.ClientWSTimeout(ws_close=0.1)


def installed_browser() -> str | None:
    """The program, if there is one."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


class Page:
    """One tab, and all that it asked for and complained about."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []
        """Errors and warnings of the console, exceptions, violations of the policy."""
        self.requests: list[str] = []
        self.session = ""

    async def read(self) -> None:
        """Take what the browser says until it is gone."""
        async for message in self._socket:
            document = json.loads(message.data)
            if waiting := self._answers.pop(document.get("id", 0), None):
                waiting.set_result(document)
            else:
                self._note(document.get("method", ""), document.get("params", {}))

    def _note(self, method: str, parts: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parts["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parts["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parts["type"] in {"error", "warning"}:
            self.complaints.append(json.dumps(parts["args"]))
        elif method == "Log.entryAdded" and parts["entry"]["level"] in {"error", "warning"}:
            self.complaints.append(json.dumps(parts["entry"]))

    async def call(self, method: str, **parts: Any) -> dict[str, Any]:
        """One command of the protocol."""
        number = next(self._numbers)
        waiting = self._answers[number] = asyncio.get_running_loop().create_future()
        session = {"sessionId": self.session} if self.session else {}
        await self._socket.send_json({"id": number, "method": method, "params": parts, **session})
        async with asyncio.timeout(PATIENCE):
            answer = await waiting
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def open(self, url: str) -> None:
        """Go there."""
        await self.call("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def wait_for(self, script: str) -> Any:
        """The value of an expression once it is true."""
        return await self.evaluate(
            "new Promise((resolve) => {"
            f"  const look = () => {{ const value = ({script});"
            "    if (value) resolve(value); else setTimeout(look, 20); };"
            "  look(); })"
        )

    async def text(self, selector: str) -> str:
        """What stands in an element."""
        return str(await self.evaluate(f"document.querySelector({selector!r}).textContent"))

    async def press(self, key: str, text: str = "") -> None:
        """A key, pressed and let go."""
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        parts: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": codes[key]}
        await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **parts)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **parts)

    async def prefer(self, scheme: str) -> None:
        """`dark` or `light`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)


@contextlib.asynccontextmanager
async def browser_page(program: str, folder: Path) -> AsyncIterator[Page]:
    """An empty tab of a browser of its own."""
    command: Sequence[str] = (program, *FLAGS, f"--user-data-dir={folder}", "about:blank")
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            address = await _address(process.stderr)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address, max_msg_size=0, timeout=NO_GOODBYE) as socket,
            asyncio.TaskGroup() as group,
        ):
            page = Page(socket)
            reading = group.create_task(page.read())
            draining = group.create_task(_drain(process.stderr))
            await _attach(page)
            yield page
            reading.cancel()
            draining.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its own children would hold the pipe open
        await process.wait()


async def _address(output: asyncio.StreamReader) -> str:
    while line := await output.readline():
        if found := LISTENING.search(line):
            return found.group(1).decode()
    raise AssertionError("the browser ended before it could be reached")


async def _drain(output: asyncio.StreamReader) -> None:
    while await output.read(1 << 16):
        pass


async def _attach(page: Page) -> None:
    target = await page.call("Target.createTarget", url="about:blank")
    attached = await page.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
    page.session = attached["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        await page.call(f"{domain}.enable")
