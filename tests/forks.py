"""Real processes that need not import everything again: a server of multiprocessing does so once, and forks.

What they say goes to files, and they end as Python does, with what is registered for its end.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    [
        *("crawl.cli.app", "crawl.runs.protocol", "crawl.runs.trained", "crawl.data.csl", "crawl.ops.cpu"),
        *("crawl.walks.cpu", "torch.utils.tensorboard", "matplotlib.figure", "matplotlib.backends.backend_agg"),
        *("tests.runs.together_runs", "PIL.PngImagePlugin", "crawl.data.molecules", "crawl.data.benchmarks"),
    ]
)


class Fork:
    """A process that runs a function, which other modules can import, with these variables of its environment."""

    def __init__(
        self, function: Callable[..., Any], *arguments: Any, environment: Mapping[str, str] | None = None
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        environment = {**os.environ, **(environment or {})}
        task = (function, arguments, environment, self._folder.name)
        self.process = processes.Process(target=_run, args=task, daemon=True)
        self.process.start()

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it has written to standard output and to standard error; killed if it does not end in time."""
        self.process.join(timeout)
        is_late = self.returncode is None
        if is_late:
            self.process.kill()
            self.process.join()
        out, errors = ((Path(self._folder.name) / name).read_text() for name in ("out", "err"))
        self._folder.cleanup()
        assert not is_late, errors
        return out, errors


def run_command(words: list[str], stdout: str = "", closed: tuple[str, ...] = ()) -> None:
    """`crawl WORDS` whose standard output is a file, if one is named; as in a Python whose streams a shell closed.

    Such a Python has `None` for what was closed, `stdout` or `stderr`.
    """
    from crawl.cli import main
    from crawl.runs import run

    run.write_run_page = lambda _: None  # it would take longer than the runs of tests
    if stdout:
        os.dup2(os.open(stdout, os.O_WRONLY | os.O_APPEND), 1)
    for name in closed:
        os.close({"stdout": 1, "stderr": 2}[name])
        setattr(sys, name, None)
        setattr(sys, f"__{name}__", None)
    code = main(words)
    if sys.stdout:
        sys.stdout.flush()  # as Python does at its end: what it cannot write then is an error
    sys.exit(code)


def _run(function: Callable[..., Any], arguments: tuple[Any, ...], environment: dict[str, str], folder: str) -> None:
    import torch

    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)
    try:
        function(*arguments)
    finally:
        atexit._run_exitfuncs()
