"""Chromium without a window, which looks at a page and has no network."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")


@dataclass(frozen=True)
class Seen:
    """What a page looked like.

    Attributes:
        picture: A PNG of it.
        messages: What it wrote to the console, such as errors and requests that its policy does not allow.
    """

    picture: Path
    messages: list[str]


def look_at(page: Path, folder: Path, *, width: int = 1200, height: int = 900, is_dark: bool = False) -> Seen:
    """Open a page in a window of this size."""
    assert CHROMIUM is not None
    picture = folder / f"{page.stem}-{width}{'-dark' * is_dark}.png"
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"),
        *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
        *(f"--user-data-dir={folder / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND"),
        *("--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=2000"),
        *(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if is_dark else []),
        *(f"--window-size={width},{height}", f"--screenshot={picture}", page.resolve().as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert picture.is_file(), done.stderr
    return Seen(picture, [line for line in done.stderr.splitlines() if "CONSOLE" in line])
