"""What all tests share."""

from __future__ import annotations

import atexit
import datetime
import gc
import hashlib
import json
import os
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from tests.browser import browser  # noqa: F401
from tests.forks import Server, use_server

if TYPE_CHECKING:
    from crawl.runs.curves import CurveGroup

# Without a GPU, Triton's kernels run in its interpreter. Triton reads this when it is first imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
    if find_spec("triton"):
        from tests.interpreter import make_quick

        make_quick()

# Of workers that need the same compiled function at the same time, as at the beginning in a fresh copy of the code, one
# compiles it and the others find it in numba's cache. This file is imported twice if tests of reproduction/ run, too.
if "PYTEST_XDIST_WORKER" in os.environ and os.name == "posix" and Dispatcher.compile.__name__ != "compile_once":
    import fcntl

    compile_function = Dispatcher.compile

    def compile_once(self: Dispatcher, signature: object) -> object:
        name = f"{os.getuid()} {self.py_func.__code__.co_filename} {self.py_func.__qualname__}"
        lock = Path(tempfile.gettempdir()) / f"crawl-{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"
        with global_compiler_lock, open(lock, "w") as file:  # in this order: threads of a process, then processes
            fcntl.flock(file, fcntl.LOCK_EX)
            return compile_function(self, signature)

    Dispatcher.compile = compile_once

with warnings.catch_warnings():  # torch 2.13 deprecates torch.jit.script, which PyG 2.8 calls when it is imported
    warnings.simplefilter("ignore")
    import torch_geometric  # noqa: F401


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let the workers of pytest-xdist share the server that their processes are forked from."""
    config = node.config
    if not hasattr(config, "forks"):
        config.forks = Server()
        config.add_cleanup(config.forks.close)
    node.workerinput["forks"] = config.forks.address


def pytest_configure(config: pytest.Config) -> None:
    if address := getattr(config, "workerinput", {}).get("forks"):
        use_server(address)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is there before the tests begin stays: let the search for garbage, which some tests call, leave it out."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)


@pytest.fixture(scope="session", autouse=True)
def _runs_without_pages() -> Iterator[None]:
    """Let runs write no `report.html`, and draw their curves only once for each choice of what is in them.

    Either would take longer than the runs of tests; `with_pages` lets them.
    """
    from crawl.runs.curves import draw_curves

    drawn: dict[frozenset[str], bytes] = {}  # by what is given

    def draw_once(groups: Sequence[CurveGroup], title: str, path: Path, **extra: Any) -> list[Path]:
        given = frozenset(name for name, value in extra.items() if value)
        if given not in drawn or not any(run.curve for group in groups for run in group.runs):
            written = draw_curves(groups, title, path, **extra)
            if written:
                drawn[given] = path.read_bytes()
            return written
        path.write_bytes(drawn[given])
        return [path]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crawl.runs.run.write_run_page", lambda _: None)
        patch.setattr("crawl.runs.run.draw_curves", draw_once)
        yield


@pytest.fixture
def with_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs write their pages, as they do outside of tests."""
    from crawl.runs.curves import draw_curves
    from crawl.runs.reports.run_page import write_run_page

    monkeypatch.setattr("crawl.runs.run.write_run_page", write_run_page)
    monkeypatch.setattr("crawl.runs.run.draw_curves", draw_curves)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes that are started see Ctrl-C, also where these tests run in the background of a script and do not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def as_rank(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets this process take itself for one of two that `torchrun` has started; it has their store."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    words = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port}
    for name, value in {**words, "TORCHELASTIC_USE_AGENT_STORE": True}.items():
        monkeypatch.setenv(name, str(value))

    def set_rank(rank: int) -> None:
        assert store.port  # which keeps it alive
        monkeypatch.setenv("RANK", str(rank))

    return set_rank


torch.set_num_threads(1)  # tensors as small as in tests only wait for a second thread, and long if the machine is busy


@pytest.fixture
def triton_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the interpreter stand in for a GPU."""
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})


@pytest.fixture
def wide_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Triton's interpreter, which takes as long for few walks at once as for many, take 16.

    This is for tests of whole networks. `test_triton_walk_conv.py` divides walks as a GPU does.
    """
    if not torch.cuda.is_available():
        monkeypatch.setattr("crawl.ops.triton.convolve._WALKS", (16, 16, 16))


@pytest.fixture
def kernels(triton_everywhere: None, wide_tiles: None) -> Iterator[torch.device]:
    """Where kernels run: tensors and models are made on the GPU if there is one, else the interpreter stands in."""
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        torch.set_default_device("cuda")
    yield torch.get_default_device()
    torch.set_default_device(None)


@pytest.fixture
def plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use no kernels, on a GPU either."""
    monkeypatch.setattr("crawl.ops.backends._DEVICES", set())


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest -m gpu --record results/gpu_tests.json` leaves a record of when and on what the GPU tests passed."""
    parser.addoption("--record", metavar="FILE", help="write the outcome of each test, with machine and commit")


_outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    file = session.config.getoption("--record")
    if not file or hasattr(session.config, "workerinput"):
        return
    git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    record = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": os.environ.get("CRAWL_COMMIT") or git.stdout.strip() or None,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU",
        "torch": torch.__version__,
        "num_passed": sum(outcome == "passed" for outcome in _outcomes.values()),
        "not_passed": {name: outcome for name, outcome in _outcomes.items() if outcome != "passed"},
        "tests": sorted(_outcomes),
    }
    Path(file).write_text(json.dumps(record, indent=1) + "\n")
