"""Chromium for tests, driven by its own protocol through two pipes: nothing is installed for it but Debian's package."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from .eventually import eventually

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # it may run as root, in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Page:
    """One tab.

    Args:
        browser: Of which.
        session: Its id in the protocol.
    """

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.ask(method, self._session, **params)

    async def go(self, address: str) -> None:
        await self.ask("Page.navigate", url=address)

    async def run(self, script: str) -> Any:
        """The value of an expression of JavaScript."""
        told = await self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def text(self) -> str:
        """What is to be read on it."""
        return str(await self.run("document.body?.innerText ?? ''"))

    async def shows(self, text: str, within: float = 15.0) -> None:
        """Waits until it can be read on the page."""
        seen = ""

        async def is_there() -> bool:
            nonlocal seen
            seen = await self.text()
            return text in seen

        await eventually(is_there, within, what=lambda: f"{text!r} on the page:\n{seen}\n{self.faults}")

    async def click(self, selector: str, text: str = "") -> None:
        """A click on the first element that has the text, as soon as there is one."""
        script = (
            f"(() => {{ const one = [...document.querySelectorAll({json.dumps(selector)})]"
            f".find((one) => one.textContent.includes({json.dumps(text)})); one?.click(); return Boolean(one); }})()"
        )
        await eventually(lambda: self.run(script), what=f"a click on {selector} {text!r}")

    async def fill(self, selector: str, before: str, text: str) -> None:
        """Types a text into the field that has another one."""
        found = await self.run(
            f"(() => {{ const one = [...document.querySelectorAll({json.dumps(selector)})]"
            f".find((one) => one.value === {json.dumps(before)}); one?.focus(); one?.select(); return Boolean(one); }})()"
        )
        assert found, f"no {selector} with {before!r}"
        await self.type(text)

    async def type(self, text: str) -> None:
        """Types where the cursor is."""
        await self.ask("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        """Presses a key and lets it go."""
        text = {"text": "\r"} if key == "Enter" else {"text": key}
        codes = {"windowsVirtualKeyCode": 13} if key == "Enter" else {}
        await self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **codes)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, **codes)

    async def size(self, width: int, height: int = 900, theme: str = "light") -> None:
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 760,
        )
        await self.ask(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}]
        )

    async def picture(self, path: Path) -> None:
        """A picture of all of it."""
        told = await self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(told["data"]))

    @property
    def faults(self) -> list[str]:
        """What was said on the console, refused by the policy or thrown."""
        return self._browser.faults

    @property
    def hosts(self) -> set[str]:
        """The hosts that were asked for something."""
        return self._browser.hosts


class Browser:
    """A process of Chromium; `browser` starts one."""

    def __init__(self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, line: int) -> None:
        self.faults: list[str] = []
        self.hosts: set[str] = set()
        self._targets: list[str] = []
        self._process, self._reader, self._line = process, reader, line
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.ensure_future(self._read())

    async def page(self) -> Page:
        """A new tab."""
        made = await self.ask("Target.createTarget", url="about:blank")
        self._targets.append(made["targetId"])
        told = await self.ask("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        page = Page(self, told["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.ask(f"{domain}.enable")
        return page

    async def close_pages(self) -> None:
        """Close all tabs."""
        while self._targets:
            await self.ask("Target.closeTarget", targetId=self._targets.pop())

    async def ask(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        number = len(self._waiting) + 1
        told: dict[str, Any] = {"id": number, "method": method, "params": params}
        self._waiting[number] = asyncio.get_running_loop().create_future()
        os.write(self._line, json.dumps(told | ({"sessionId": session} if session else {})).encode() + b"\0")
        async with asyncio.timeout(30):
            answer = await self._waiting[number]
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    async def _read(self) -> None:
        while True:
            told = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            if "id" in told:
                self._waiting[told["id"]].set_result(told)
            elif told["method"] == "Runtime.exceptionThrown":
                self.faults.append(str(told["params"]["exceptionDetails"]))
            elif told["method"] == "Log.entryAdded":
                self.faults.append(str(told["params"]["entry"]["text"]))
            elif told["method"] == "Network.requestWillBeSent":
                self.hosts.add(str(told["params"]["request"]["url"]).split("/")[2])

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._line)


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """A browser of its own, gone at the end."""
    assert CHROMIUM is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # The protocol is read from descriptor 3 and written to descriptor 4.
        script = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", script, "chromium", CHROMIUM, *OPTIONS, f"--user-data-dir={folder}"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        reader = asyncio.StreamReader(limit=100_000_000)
        pipe = os.fdopen(ours_in, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        made = Browser(process, reader, ours_out)
        try:
            yield made
        finally:
            await made.close()
            transport.close()
