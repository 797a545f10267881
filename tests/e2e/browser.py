"""A real browser in a test: Chromium without a window, driven by its own protocol over a pipe."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSERS = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"
"""The first without windows, which others open and draw for each page."""
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)


class Tab:
    """One page: what it logged, what it asked the network for, and a way to run script in it."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = os.fdopen(read, "rb"), os.fdopen(write, "wb")
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.faults: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result, noting the events that come before."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while (reply := self._receive()).get("id") != number:
            pass
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']['message']}")
        result: dict[str, Any] = reply["result"]
        return result

    def open(self, path: Path, width: int = 1280, height: int = 800, **emulated: str) -> None:
        """Open a file at this size of window; wait until it has loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        features = [{"name": name.replace("_", "-"), "value": v} for name, v in emulated.items()]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.run("window.former = true")
        self.call("Page.navigate", url=path.as_uri())
        while not self._loaded():
            time.sleep(0.01)

    def _loaded(self) -> bool:
        try:
            return bool(self.run("!window.former && document.readyState === 'complete'"))
        except RuntimeError:  # between two pages
            return False

    def run(self, script: str) -> Any:
        """The value of an expression in the page; raises RuntimeError if it throws."""
        done = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"]))
        return done["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """Press and release the mouse at a point of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path: Path) -> None:
        """Save what the window shows."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """Close the pipe; the browser ends with it."""
        self._write.close()
        self._read.close()

    def _receive(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._read.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser closed its pipe")
            text += byte
        message: dict[str, Any] = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.faults.append(str(parameters["exceptionDetails"]))
        if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.faults.append(parameters["entry"]["text"])
        if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.faults.append(str(parameters["args"]))
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return message


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A browser with an empty profile in this folder, ended on leaving."""
    assert CHROMIUM is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    flags = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--remote-debugging-pipe",
    ]  # fmt: skip
    command = f"exec {shlex.join(flags)} 3<&{to_read} 4>&{from_write}"
    process = subprocess.Popen(
        ["bash", "-c", command], pass_fds=(to_read, from_write), stderr=subprocess.DEVNULL
    )
    os.close(to_read)
    os.close(from_write)
    try:
        tab = Tab(from_read, to_write)
        yield tab
        tab.close()
    finally:
        process.terminate()
        process.wait(timeout=20)
