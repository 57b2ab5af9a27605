"""From the words on the command line to a command, and from what goes wrong to one line and an exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from typing import Annotated, Any, Protocol, Union, get_origin

import tyro

from crawl import __version__
from crawl.cli import signals
from crawl.cli.compare import Compare
from crawl.cli.data import DataCommand
from crawl.cli.describe import Datasets, Info
from crawl.cli.distinguish import Distinguish
from crawl.cli.embed import Embed
from crawl.cli.evaluate import Evaluate
from crawl.cli.explain import Explain
from crawl.cli.graph import GraphCommand
from crawl.cli.output import STDOUT_NAME, printable, replace_closed_streams, say
from crawl.cli.predict import Predict
from crawl.cli.pretrained import Pretrained
from crawl.cli.report import Report
from crawl.cli.signals import as_interrupts
from crawl.cli.train import Train, train_type
from crawl.cli.tune import Tune, tune_type
from crawl.cli.walk import WalkEdges
from crawl.files import named_if_full
from crawl.training.launched import has_one_command, launched, started_together
from crawl.training.said import is_said_by_first

_DESCRIPTION = """CRaWl: graph learning with random walks and 1D CNNs.

Begin with `crawl train csl`, which needs no data; `crawl COMMAND --help` explains a command.
`crawl --version` prints the version; --debug with any command shows where an error came from."""

OK, BUG, USAGE, BROKEN_PIPE = 0, 1, 2, 141


class Command(Protocol):
    """What a subcommand is: a dataclass of flags that can be run."""

    def run(self) -> None:
        """Do it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line of `crawl`; the exit code, as of `run_command`."""
    return run_command(argv, parse, "crawl")


def run_command(argv: Sequence[str] | None, parse: Callable[[Sequence[str]], Command], prog: str) -> int:
    """Run a command line of a program; the exit code: 0, or 2 for a mistake in the command or the data.

    It is 130 after Ctrl-C, 143 after SIGTERM and 129 after SIGHUP.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [word for word in arguments if word != "--debug"]
    replace_closed_streams()
    rank = _rank()
    if started_together() > 1:  # a line names a process that is gone; torch would add where in C++ it saw that
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    if not rank:
        return _run(arguments, parse, prog, rank, debug)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # the first process speaks for all
        return _run(arguments, parse, f"{prog}: rank {rank}", rank, debug)


def _run(arguments: Sequence[str], parse: Callable[[Sequence[str]], Command], prog: str, rank: int, debug: bool) -> int:
    """Run a command line in the process of this rank; the exit code."""
    with as_interrupts() as came:
        try:
            with _warnings_in_one_line(prog):
                if arguments == ["--version"]:
                    with named_if_full(STDOUT_NAME):
                        print(f"{prog} {__version__}")
                else:
                    _parsed(parse, arguments, rank).run()
                with named_if_full(STDOUT_NAME):
                    sys.stdout.flush()
        except SystemExit as stop:  # tyro has printed its help or what is wrong with a flag
            return stop.code if isinstance(stop.code, int) else OK if stop.code is None else USAGE
        except KeyboardInterrupt as interrupt:
            signals.ignore()
            death = _death_of_another() if came else None
            what = death or (f"stopped by {came[0].name}" if came else "interrupted")
            if getattr(death, "is_told_here", rank == 0):  # the first one tells what came to all
                with suppress(OSError):  # the terminal may be gone
                    say("; ".join([f"{prog}: {what}", *map(str, interrupt.args)]))
            if came:
                _drop_stdout()
            return 128 + (came[0] if came else signal.SIGINT)
        except BrokenPipeError:  # the reader of our output has left, as `head` does
            _drop_stdout()
            return BROKEN_PIPE
        except Exception as error:
            signals.ignore()
            if debug:
                traceback.print_exc()
            text = _in_one_line(error)
            if error.is_told_here if hasattr(error, "is_told_here") else not is_said_by_first(text):
                say(f"{prog}: error: {text}")
            if isinstance(error, OSError):  # perhaps it cannot be flushed, in which case Python would complain again
                _drop_stdout()
            return USAGE if _is_users(error) else BUG
    return OK


def parse(arguments: Sequence[str]) -> Command:
    """The command the arguments ask for. Prints help or what is wrong, and raises `SystemExit`, as tyro does."""
    types: dict[str, Any] = {
        "train": train_type(arguments) if "train" in arguments else Train[None],  # recipes take time to import
        "evaluate": Evaluate,
        "predict": Predict,
        "embed": Embed,
        "explain": Explain,
        "tune": tune_type(arguments) if "tune" in arguments else Tune[None],
        "info": Info,
        "pretrained": Pretrained,
        "datasets": Datasets,
        "report": Report,
        "compare": Compare,
        "data": DataCommand,
        "graph": GraphCommand,
        "walk": WalkEdges,
        "distinguish": Distinguish,
    }
    if arguments[:1] == ["reproduce"]:
        raise ValueError("crawl reproduce is now, in a copy of the repository: python -m reproduction TABLE.")
    chosen = next((word for word in arguments if word in types), None)
    _refuse_several(chosen, arguments)
    commands = [Annotated[type_, _subcommand(name, type_, name == chosen)] for name, type_ in types.items()]
    any_command: Any = Union[tuple(commands)]  # noqa: UP007
    command: Command = tyro.cli(
        any_command,
        prog="crawl",
        description=_DESCRIPTION,
        args=arguments or ["--help"],
        config=(tyro.conf.CascadeSubcommandArgs,),
    )
    return command


def _refuse_several(command: str | None, arguments: Sequence[str]) -> None:
    """Refuse several processes for what each of them would do, and write, again."""
    size = started_together()
    if size == 1 or command in (None, "train"):
        return
    flags = {"predict": "--jobs", "tune": "--ray"} | ({"data": "--jobs"} if "pack" in arguments else {})
    remedy = f"; {flags[command]} shares the work out" if command in flags else ""
    raise ValueError(f"crawl {command} works in one process, not {size}: call it without torchrun and srun{remedy}.")


def _subcommand(name: str, type_: Any, is_chosen: bool) -> Any:
    """The whole docstring in a command's own help, its first line in the list of commands."""
    text = (get_origin(type_) or type_).__doc__.strip()
    return tyro.conf.subcommand(name, description=None if is_chosen else text.splitlines()[0])


@contextmanager
def _warnings_in_one_line(prog: str) -> Iterator[None]:
    """Show warnings as remarks, without the line of code they come from."""
    usual = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: printable(f"{prog}: warning: {message}\n")
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _is_users(error: Exception) -> bool:
    """Whether the user can do something about it: wrong data or flags, a missing package, a full disk or memory."""
    users = ValueError | OSError | ImportError | OverflowError | MemoryError
    return isinstance(error, users) or _lacks_memory(error) or hasattr(error, "is_told_here")


def _lacks_memory(error: Exception) -> bool:
    """Whether there was not enough memory, which torch says in several ways."""
    return isinstance(error, RuntimeError) and any(
        sign in str(error) for sign in ("out of memory", "allocate memory", "not enough memory")
    )


def _in_one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) or _lacks_memory(error):
        return f"there is not enough memory: take a smaller batch, shorter walks or a smaller model. {text}".strip()
    return text if _is_users(error) and text else f"{type(error).__name__}: {text} (--debug shows where)"


def _parsed(parse: Callable[[Sequence[str]], Command], arguments: Sequence[str], rank: int) -> Command:
    """The command the arguments ask for; of several processes, the first one prints what is wrong with a flag."""
    said = io.StringIO()
    try:
        with redirect_stderr(said) if rank else nullcontext():
            return parse(arguments)
    except SystemExit as stop:
        is_told_alike = rank > 0 and has_one_command()
        if stop.code and not is_told_alike and not is_said_by_first(f"wrong flags: {' '.join(arguments)}"):
            sys.stderr.write(said.getvalue())
        raise


def _rank() -> int:
    """Which of several processes this is; 0 if that cannot be said, which a training will say itself."""
    try:
        return launched()[0]
    except ValueError:
        return 0


def _death_of_another() -> Exception | None:
    """What to say if one of several processes died, which may be why this one was told to stop."""
    ranks = sys.modules.get("crawl.training.ranks")  # if it was not imported, there is one process
    death: Exception | None = None if ranks is None else ranks.death()
    return death


def _drop_stdout() -> None:
    """Send what is still to be flushed nowhere, or Python would complain on its way out."""
    with suppress(OSError):  # in tests it is not a real stream
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
