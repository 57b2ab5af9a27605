"""What may come of a call or a command, and how to tell an error of ours from one that escaped."""

from __future__ import annotations

import contextlib
import dis
import io
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import crawl

SOURCE = Path(crawl.__file__).parent
EXIT_CODES = (0, 2, 130, 143)
_RAISE = dis.opmap["RAISE_VARARGS"]


class TimeUp(BaseException):
    """A case took too long. Not an `Exception`: nothing but the harness catches it."""


def judge_call(call: Callable[[], Any], seconds: float, *, allows_sklearn: bool = False) -> tuple[str, Any]:
    """What came of a call: ("result", value), ("refused", message) or ("failed", why).

    A refusal is a ValueError or TypeError from a `raise` statement in the package: not one that torch, numpy or Python
    itself raised because a wrong value went too deep. scikit-learn's checks of its own protocol count where allowed.
    """
    try:
        with quiet(), time_limit(seconds):
            return "result", call()
    except TimeUp:
        return "failed", f"TimeUp after {seconds:g} s at {_place(sys.exc_info()[2])}"
    except (ValueError, TypeError) as error:
        if is_ours(error) or (allows_sklearn and is_sklearns(error)):
            return "refused", str(error)
        return "failed", _described(error)
    except BaseException as error:
        return "failed", _described(error)


def judge_command(run: Callable[[], int], seconds: float, stdin: str = "") -> tuple[str, Any]:
    """What came of a command line: ("result", exit code), ("refused", its line) or ("failed", why)."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    old_stdin, sys.stdin = sys.stdin, io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), quiet(), time_limit(seconds):
            code = run()
    except TimeUp:
        return "failed", f"TimeUp after {seconds:g} s at {_place(sys.exc_info()[2])}"
    except BaseException as error:
        return "failed", _described(error)
    finally:
        sys.stdin = old_stdin
    text = err.getvalue()
    lines = [line for line in text.splitlines() if line.startswith("crawl: error:")]
    if code not in EXIT_CODES:
        return "failed", f"exit code {code}: {text.strip()[-300:]}"
    if "Traceback" in text:
        return "failed", f"a traceback with exit code {code}: {text.strip()[-300:]}"
    if code == 2:
        is_box = not lines and "For full helptext" in text + _text(out)
        if len(lines) != 1 and not is_box:
            return "failed", f"exit code 2 with {len(lines)} error lines: {text.strip()[-300:]}"
        return "refused", lines[0] if lines else "a box of tyro"
    if lines:
        return "failed", f"exit code {code} with an error: {lines[0]}"
    return "result", code


def is_ours(error: BaseException) -> bool:
    """Whether the innermost frame of an exception is a `raise` statement in the package."""
    innermost = _innermost(error.__traceback__)
    if innermost is None:
        return False
    code = innermost.tb_frame.f_code
    return Path(code.co_filename).is_relative_to(SOURCE) and code.co_code[innermost.tb_lasti] == _RAISE


def is_sklearns(error: BaseException) -> bool:
    """Whether scikit-learn raised an exception by itself."""
    innermost = _innermost(error.__traceback__)
    return innermost is not None and "/sklearn/" in innermost.tb_frame.f_code.co_filename


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises `TimeUp` in the main thread when the time is over, and again every second, should something swallow it."""

    def stop(*_: object) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def limit_memory(num_bytes: int) -> None:
    """Let this process grow by so much and no more: a hostile number must not eat the machine."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    limit = pages * resource.getpagesize() + num_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def forbid_network() -> None:
    """Refuse every connection from here on: a case must not download anything."""

    def connect(*_: object) -> None:
        raise OSError("the harness allows no network")

    socket.socket.connect = connect  # type: ignore[method-assign, assignment]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without warnings: torch has some about tensors that are only made here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _innermost(place: TracebackType | None) -> TracebackType | None:
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place


def _place(place: TracebackType | None) -> str:
    """The innermost line of the package in a traceback."""
    frames = [frame for frame in traceback.extract_tb(place) if Path(frame.filename).is_relative_to(SOURCE)]
    if not frames:
        return "?"
    return f"{Path(frames[-1].filename).relative_to(SOURCE)}:{frames[-1].lineno} in {frames[-1].name}"


def _described(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())[:200]
    except Exception as another:
        text = f"(its text raises {type(another).__name__})"
    return f"{type(error).__name__} at {_place(error.__traceback__)}: {text}"


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "replace")
