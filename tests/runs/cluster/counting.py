"""Work that workers import: they know modules, not tests."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from crawl.runs.folder import RunFolder
from crawl.runs.run import Stopped

ROOT = Path(__file__).parents[3]


def path_for_workers() -> str:
    """PYTHONPATH for processes that are to import this module."""
    return os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


def counts(folder: Path, task: dict[str, Any], tell) -> int:
    """Count in a file, as a run counts its epochs; die, fail or stop where the task says so."""
    file = RunFolder(folder).last
    number = int(file.read_text()) if file.is_file() else 0
    while number < task.get("until", 5):
        number += 1
        file.write_text(str(number))
        if tell({"epoch": number, "loss": 0.5, "seconds": 1.0}):
            raise Stopped("it can be resumed")
        if number in task.get("dies_at", ()):
            os.kill(os.getpid(), signal.SIGKILL)
        if number == task.get("fails_at"):
            raise ValueError("it is wrong")
        time.sleep(task.get("seconds", 0))
    return number
