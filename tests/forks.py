"""Real processes that need not import everything again: a server of multiprocessing does so once, and forks.

The workers of pytest-xdist share one. What the processes say goes to files, and they end as Python does, with what is
registered for its end.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing import connection, forkserver, resource_tracker, util
from pathlib import Path
from typing import Any

processes = multiprocessing.get_context("forkserver")
IMPORTED = [
    *("crawl.cli.app", "crawl.runs.protocol", "crawl.runs.trained", "crawl.data.csl", "crawl.ops.cpu"),
    *("crawl.walks.cpu", "torch.utils.tensorboard", "matplotlib.figure", "matplotlib.backends.backend_agg"),
    *("tests.runs.together_runs", "PIL.PngImagePlugin", "crawl.data.molecules", "crawl.data.benchmarks"),
    *("reproduction.__main__", "scipy.optimize", "scipy.stats", "sklearn.metrics", "sklearn.neighbors"),
]
processes.set_forkserver_preload(IMPORTED)


class Server:
    """A server that several processes may use, which share its imports; it ends when it is closed or they are gone."""

    def __init__(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            self.address = connection.arbitrary_address("AF_UNIX")
            listener.bind(self.address)
            listener.listen()
            ends, self._open = os.pipe()
            code = f"import sys; sys.path[:] = {sys.path!r}; from tests import forks; "
            code += f"forks.serve({listener.fileno()}, {ends})"
            words = [sys.executable, *util._args_from_interpreter_flags(), "-c", code]
            self._process = util.spawnv_passfds(os.fsencode(sys.executable), words, [listener.fileno(), ends])
            os.close(ends)

    def close(self) -> None:
        os.close(self._open)
        os.waitpid(self._process, 0)
        if not util.is_abstract_socket_namespace(self.address):
            os.unlink(self.address)


def serve(listener: int, ends: int) -> None:
    """Fork processes for those who ask, and import everything when the first one does."""
    if ends not in select.select([listener, ends], [], [])[0]:
        forkserver.main(listener, ends, IMPORTED)


def use_server(address: str) -> None:
    """Let processes of this one come from a server that another one has started."""
    own = forkserver._forkserver
    own._forkserver_address = address
    own._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)  # what keeps it is with the one that started it
    own.ensure_running = resource_tracker.ensure_running


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
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where tests run in the background, it is ignored
    torch.set_num_threads(1)
    try:
        function(*arguments)
    finally:
        atexit._run_exitfuncs()
