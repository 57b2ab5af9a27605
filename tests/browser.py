"""Chromium without a window and without a network, which looks at pages.

It is spoken to by its DevTools protocol over two pipes, so that what a page asks for, what it says to the console and
how wide it is are known, not only what it looks like; and one browser looks at many pages.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DESKTOP, PHONE = 1280, 390  # widths of windows
_PATIENCE = 60.0  # seconds for an answer, on a machine that does other things, too
_TOO_WIDE = """(() => {
  const seen = window.innerWidth, page = document.scrollingElement.scrollWidth;
  if (page <= seen + 1) return [];
  const names = [...document.body.querySelectorAll('*')].filter(each => each.getBoundingClientRect().right > seen + 1);
  return [`the page is ${page} wide`, ...names.slice(0, 5).map(each => each.outerHTML.slice(0, 80))];
})()"""


@dataclass(frozen=True)
class Seen:
    """What a page looked like.

    Attributes:
        picture: A PNG of it.
        messages: What it wrote to the console, such as errors and requests that its policy does not allow.
        requests: What it asked for, the page itself left out.
        too_wide: What is wider than the window, so that a person has to scroll sideways.
        answers: To the questions that were asked.
    """

    picture: Path
    messages: list[str]
    requests: list[str]
    too_wide: list[str]
    answers: list[Any]

    def pixels(self) -> np.ndarray:
        """[height, width, 3] colours from 0 to 255."""
        image = pytest.importorskip("PIL.Image")
        with image.open(self.picture) as picture:
            return np.asarray(picture.convert("RGB")).astype(int)

    def check(self) -> None:
        """Nothing leaves the page, nothing fails, nothing is too wide, and there is something on it to see."""
        away = [url for url in self.requests if not url.startswith(("file:", "data:"))]
        assert (self.messages, away, self.too_wide) == ([], [], [])
        pixels = self.pixels()
        is_ink = abs(pixels - pixels[0, 0]).max(axis=2) > 100
        assert is_ink.mean() > 0.004, f"{self.picture} is blank"


@dataclass
class Browser:
    """A browser that is running; `browsing` starts and ends one."""

    to: int
    back: int
    number: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    _read: bytes = b""

    def look_at(
        self,
        page: Path,
        folder: Path,
        *,
        width: int = DESKTOP,
        height: int = 900,
        is_dark: bool = False,
        is_whole: bool = False,
        scale: float = 1,
        questions: tuple[str, ...] = (),
    ) -> Seen:
        """Open a page in a window of this size.

        Args:
            page: A file.
            folder: Where its picture goes.
            width: Of the window.
            height: The same.
            is_dark: Whether the person prefers dark pages.
            is_whole: Whether the picture has the whole page, not only what fits into the window.
            scale: Pixels of the picture for each of the page.
            questions: Expressions of JavaScript, which are evaluated in the page.
        """
        context = self.say("Target.createBrowserContext")["browserContextId"]  # as of a person who was never here
        target = self.say("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        tab = self.say("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events.clear()
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.say(f"{domain}.enable", tab)
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.say("Emulation.setDeviceMetricsOverride", tab, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.say("Emulation.setEmulatedMedia", tab, features=[scheme])
        self.say("Page.navigate", tab, url=page.resolve().as_uri())
        self._wait_for("Page.loadEventFired", tab)
        frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
        _, too_wide, *answers = [self._ask(each, tab) for each in (frames, _TOO_WIDE, *questions)]
        shown: dict[str, Any] = {}
        if is_whole:
            content = self.say("Page.getLayoutMetrics", tab)["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": width, "height": content["height"], "scale": 1}
            shown = {"captureBeyondViewport": True, "clip": clip}
        data = self.say("Page.captureScreenshot", tab, **shown)["data"]
        picture = folder / f"{page.stem}-{width}{'-dark' * is_dark}.png"
        picture.write_bytes(base64.b64decode(data))
        self.say("Target.disposeBrowserContext", browserContextId=context)
        return Seen(picture, *self._heard(page.resolve().as_uri()), too_wide, answers)

    def say(self, method: str, tab: str | None = None, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to a command of its protocol."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": tab} if tab else {})}
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _ask(self, question: str, tab: str) -> Any:
        answer = self.say("Runtime.evaluate", tab, expression=question, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{question}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def _wait_for(self, event: str, tab: str) -> None:
        while not any(each["method"] == event and each.get("sessionId") == tab for each in self.events):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._read:
            ready, *_ = select.select([self.back], [], [], max(end - time.monotonic(), 0))
            piece = os.read(self.back, 1 << 20) if ready else b""
            assert piece, "Chromium ended." if ready else f"Chromium did not answer for {_PATIENCE:.0f} seconds."
            self._read += piece
        message, _, self._read = self._read.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _heard(self, page: str) -> tuple[list[str], list[str]]:
        """What a page wrote to the console, and what it asked for."""
        messages, requests = [], []
        for event in self.events:
            what = event.get("params", {})
            if event["method"] == "Log.entryAdded":
                messages.append(f"{what['entry']['text']} {what['entry'].get('url', '')}")
            elif event["method"] == "Runtime.consoleAPICalled":
                messages.append(" ".join(str(each.get("value", each.get("description"))) for each in what["args"]))
            elif event["method"] == "Runtime.exceptionThrown":
                messages.append(str(what["exceptionDetails"]))
            elif event["method"] == "Network.requestWillBeSent" and what["request"]["url"] != page:
                requests.append(what["request"]["url"])
        return messages, requests


WINDOWS: dict[str, dict[str, Any]] = {"desktop": {}, "phone": {"width": PHONE}, "dark": {"is_dark": True}}


def look_in_all_windows(browser: Browser, page: Path, folder: str, *, is_whole: bool) -> dict[str, Seen]:
    """What a page looks like on a desktop, on a phone and in the dark. All of it is checked; pictures are kept.

    Args:
        browser: That looks.
        page: A file.
        folder: Its name in `build/screens`, which is not part of the repository.
        is_whole: Whether pictures have the whole page, not only its beginning.
    """
    kept = Path(__file__).parents[1] / "build" / "screens" / folder
    kept.mkdir(parents=True, exist_ok=True)
    seen = {name: browser.look_at(page, kept, is_whole=is_whole, **window) for name, window in WINDOWS.items()}
    for each in seen.values():
        each.check()
    assert np.median(seen["desktop"].pixels()) > 200 > 60 > np.median(seen["dark"].pixels())
    return seen


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with its profile in a folder; it ends with the block."""
    assert CHROMIUM is not None
    (his_in, our_out), (our_in, his_out) = os.pipe(), os.pipe()
    command = [
        *("bash", "-c", f'exec "$@" 3<&{his_in} 4>&{his_out} 2>/dev/null', "bash", CHROMIUM, "--headless"),
        *("--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
        *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
        *(f"--user-data-dir={folder / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND"),
    ]
    with subprocess.Popen(command, pass_fds=(his_in, his_out), stdout=subprocess.DEVNULL) as process:
        os.close(his_in)
        os.close(his_out)
        try:
            browser = Browser(our_out, our_in)
            yield browser
            browser.say("Browser.close")
        finally:
            os.close(our_out)
            os.close(our_in)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for all tests of a process; those who ask for it are skipped where there is no Chromium."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with browsing(tmp_path_factory.mktemp("browser")) as running:
        yield running
