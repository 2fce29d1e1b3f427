"""Chromium without a window, driven by ChromeDriver over W3C WebDriver (https://www.w3.org/TR/webdriver2/)."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: The key by which WebDriver's messages refer to elements.
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """A session of a browser: pages are opened, scripts run in them, keys typed."""

    def __init__(self, base: str, session: str = "") -> None:
        self._base, self._session = base, session

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The value of a command of the session. Raises `RuntimeError` with the driver's message."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + self._session + path, data, {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from None

    def open(self, url: str) -> None:
        """Show a page."""
        self.call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a function body returns in the page."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command: str, **parameters: Any) -> Any:
        """The result of a command of Chromium's DevTools protocol."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def wait(self, script: str, *arguments: Any, seconds: float = 30.0) -> Any:
        """The value of a script once it is true; tells what is on the page where it never is."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.run(script, *arguments):
                return found
            time.sleep(0.1)
        raise TimeoutError(f"never true: {script}; the page has {self.run('return document.body.innerText')!r}")

    def type(self, selector: str, text: str) -> None:
        """Type into the element that a selector of CSS names; of a file's field, choose the file."""
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        self.call("POST", f"/element/{found[_ELEMENT]}/value", {"text": text})

    def click(self, role: str, name: str) -> None:
        """Click the button, tab or link whose name begins so."""
        selector = {"button": "button:not([role])", "tab": "[role=tab]", "link": "a"}[role]
        self.wait(
            "const one = [...document.querySelectorAll(arguments[0])].find((e) => e.offsetParent && "
            "e.textContent.trim().startsWith(arguments[1])); one?.click(); return Boolean(one)",
            selector, name,
        )  # fmt: skip


def missing() -> str:
    """The reason why no browser can be driven here; "" where one can."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


@contextmanager
def browser(downloads: Path) -> Iterator[Browser]:
    """A browser that saves files to a folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found = _session(f"http://127.0.0.1:{port}", downloads)
        yield found
        found.call("DELETE", "")
    finally:
        driver.terminate()
        driver.wait(10)


def _session(base: str, downloads: Path) -> Browser:
    """A new session, once the driver answers."""
    options = {
        "binary": shutil.which("chromium"),
        "args": ["--headless=new", "--no-sandbox", "--window-size=1280,900", "--disable-gpu"],
        "prefs": {"download.default_directory": str(downloads)},
    }
    wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    for _ in range(100):
        try:
            made = Browser(base).call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            return Browser(base, f"/session/{made['sessionId']}")
        except urllib.error.URLError:
            time.sleep(0.1)
    raise TimeoutError("chromedriver does not answer")
