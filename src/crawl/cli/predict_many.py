"""`crawl predict --jobs N`: many rows, by several processes, in their order; what was stopped is resumed.

A process reads, predicts and formats a piece of the input at a time. Each piece is predicted alone, so that the output
does not depend on how many processes there are. Beside the output are, until it is whole, the rows so far and a note
that says of what: after a stop, the same command resumes there.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crawl import __version__
from crawl.cli.inputs import Row, counter, packed_graphs, say_outside, say_unknown
from crawl.cli.output import STDOUT, say
from crawl.files import is_regular, named_if_full, parse_json, write_atomically
from crawl.plain import structure, unstructure
from crawl.processes import in_order

if TYPE_CHECKING:
    from crawl.data.packed import PackedStore
    from crawl.runs import TrainedModel

try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None  # type: ignore[assignment]

Command = Any  # a `Predict`, whose module imports this one

ROWS_AT_A_TIME = 1000
_AT_ONCE = 2**20
_OF_MODEL = ("best.safetensors", "model.safetensors", "config.json", "ensemble.json", "calibration.json")
_SETTINGS = ("num_repeats", "num_steps", "batch_size", "seed", "interval", "calibrated", "smiles", "unknown")


@dataclass(frozen=True)
class Piece:
    """The output of some rows."""

    text: str
    num_rows: int
    num_bad: int
    num_far: int
    first_reason: str
    unknown: list[tuple[str, str, Any, int]]
    outside: dict[str, int]


@dataclass
class Note:
    """How far a prediction is, and of what it is.

    Attributes:
        input: What the input is.
        model: What the model is.
        settings: What flags say, the version and the kind of device.
        num_pieces: How many pieces of the input are done.
        num_bytes: How long the output is then.
        num_rows: How many rows it has.
        num_bad: How many of them have no prediction.
        num_far: How many are far from the training data.
        first_reason: Why the first of them has none.
        unknown: Categories that did not occur in training, with their numbers.
        outside: What is outside the range of training, with its number of rows.
    """

    input: str
    model: str
    settings: dict[str, str]
    num_pieces: int = 0
    num_bytes: int = 0
    num_rows: int = 0
    num_bad: int = 0
    num_far: int = 0
    first_reason: str = ""
    unknown: list[tuple[str, str, str | int, int]] = field(default_factory=list)
    outside: dict[str, int] = field(default_factory=dict)

    def add(self, piece: Piece) -> None:
        """Count a piece."""
        self.num_pieces += 1
        self.num_rows += piece.num_rows
        self.num_bad += piece.num_bad
        self.num_far += piece.num_far
        self.first_reason = self.first_reason or piece.first_reason
        counts = {(owner, name, value): number for owner, name, value, number in self.unknown}
        for owner, name, value, number in piece.unknown:
            counts[owner, name, value] = counts.get((owner, name, value), 0) + number
        self.unknown = [(*key, number) for key, number in counts.items()]
        for subject, number in piece.outside.items():
            self.outside[subject] = self.outside.get(subject, 0) + number


def predict_many(command: Command, jobs: int) -> None:
    """Predict for a table of molecules, or a packed store, of any length."""
    from crawl.data.features import Unknown

    output = command.output
    if output == STDOUT or not is_regular(output):
        raise ValueError("--jobs needs a file for the output, which is resumed after a stop: give -o FILE.")
    state = _state(command.input)
    work = _Work(command, verify=True)
    with _begun(output, work.note()) as (note, file):
        rows_before = note.num_rows
        if rows_before:
            say(f"{output}: resuming after {rows_before} rows")
        pieces = islice(work.pieces(), note.num_pieces, None)
        if jobs > 1:
            say(f"starting {jobs} processes")
        with tempfile.TemporaryDirectory() as claims, counter(from_first=jobs > 1) as count:
            given = (command, claims, _threads(command, jobs))
            for piece in in_order(answer, pieces, jobs, prepare=prepare, given=given):
                text = piece.text if note.num_pieces else work.header + piece.text
                file.write(text.encode())
                file.flush()
                note.add(piece)
                note.num_bytes = file.tell()
                _write(output, note)
                count(piece.num_rows)
            if not note.num_pieces:
                file.write(work.header.encode())
        if _state(command.input) != state:
            raise ValueError(f"{command.input} was changed while it was read: predict again.")
        if note.num_rows and note.num_bad == note.num_rows:
            reason = f"The first of {note.num_rows} has none because: {note.first_reason}."
            raise ValueError(f"No row of {command.input} has a prediction. {reason}")
    unknown = Unknown()
    for owner, name, value, number in note.unknown:
        unknown[owner, name, value] += number
    say_unknown(unknown)
    say_outside(note.outside)
    say(f"{summary(note.num_rows, note.num_bad, note.num_far)} → {output}")


def summary(num_rows: int, num_bad: int, num_far: int) -> str:
    """What came of the rows, in a few words."""
    bad = f", {num_bad} without a prediction (see the column reason)" if num_bad else ""
    far = f", {num_far} far from the training data (see the column far)" if num_far else ""
    return f"{num_rows} rows{bad}{far}"


class _Work:
    """A command, its model and its input, in the process that answers pieces of it, or hands them out.

    The one that hands them out compares the checksums of a packed store (`verify`), once for all.
    """

    def __init__(self, command: Command, *, verify: bool) -> None:
        from crawl.data.packed import is_packed, open_packed
        from crawl.runs.sources import Links

        self.command = command
        self.trained: TrainedModel = command.load()
        if isinstance(self.trained.experiment.data, Links) or command.is_of_one_graph(self.trained):
            raise ValueError("--jobs is for sets of graphs, and the model is of one graph: leave it out.")
        command.check_calibration(self.trained)
        self.store: PackedStore | None = None
        self.columns: Sequence[str] = ("graph",)
        self.names: Sequence[str] = ()
        if is_packed(command.input):
            opened: Any = open_packed(command.input, verify=verify)
            self.store, self.names = opened.store, opened.graph_names
        elif command.input.is_dir():
            raise ValueError(f"--jobs is for tables and packed stores, and {command.input} is a folder: leave it out.")
        else:
            from crawl.data.table import Table

            self.reader = command.molecule_reader(self.trained)
            self.columns = Table(command.input).columns
        self.added = command.added(self.trained, self.columns)

    @property
    def header(self) -> str:
        """The first line of the output."""
        return _csv([[*self.command.names_of(self.columns), *self.added]])

    def pieces(self) -> Iterator[Any]:
        """The rows of the input, or the first and the last graph, of each piece."""
        if self.store is not None:
            for first in range(0, len(self.store), ROWS_AT_A_TIME):
                yield first, min(first + ROWS_AT_A_TIME, len(self.store))
            return
        from crawl.data.table import Table

        rows = iter(Table(self.command.input))
        while piece := list(islice(rows, ROWS_AT_A_TIME)):
            yield piece

    def answer(self, piece: Any) -> Piece:
        """The output of a piece."""
        from crawl.data.features import Unknown

        unknown, outside = Unknown(), Counter[str]()
        rows: list[Row]
        if self.store is not None:
            rows = [({"graph": name}, graph) for name, graph in packed_graphs(self.store, self.names, *piece)]
        else:
            rows = [(row.cells, row.problem or self.reader(row, unknown)) for row in piece]
        answers = self.command.answers(self.trained, rows, unknown, outside, len(self.added))
        self.command.check_unknown(unknown)
        text = _csv(
            [*(cells[name] for name in self.columns), *found] for (cells, _), found in zip(rows, answers, strict=True)
        )
        far = self.added.index("far") if "far" in self.added else None
        reasons = [graph for _, graph in rows if isinstance(graph, str)]
        num_far = 0 if far is None else sum(found[far] == "1" for found in answers)
        counted = [(*key, number) for key, number in unknown.items()]
        return Piece(text, len(rows), len(reasons), num_far, next(iter(reasons), ""), counted, dict(outside))

    def note(self) -> Note:
        """What the output will be of, with nothing done."""
        from crawl.data.packed import MANIFEST
        from crawl.runs.packaged import local_model

        # The manifest has the checksums of the headers, which have those of the arrays: all were compared.
        source = self.command.input if self.store is None else self.command.input / MANIFEST
        place = local_model(self.command.run_folder)
        files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.name in _OF_MODEL)
        settings = {name: str(getattr(self.command, name)) for name in _SETTINGS}
        settings |= {"version": __version__, "device": self.trained.device.type}
        return Note(_hash([source]), _hash(files), settings)


_work: list[_Work] = []  # of this process


def prepare(command: Command, claims: str, threads: int | None) -> None:
    """Load the model in a process, on the next GPU if there are several; the number of threads is that of torch."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    if torch.cuda.is_available() and command.device != "cpu":
        torch.cuda.set_device(_claimed(Path(claims)) % torch.cuda.device_count())
    _work[:] = [_Work(command, verify=False)]


def answer(piece: Any) -> Piece:
    """The output of a piece, in a process that `prepare` made ready."""
    return _work[0].answer(piece)


def _claimed(folder: Path) -> int:
    """The first number that no other process has taken."""
    number = 0
    while True:
        with suppress(FileExistsError):
            (folder / str(number)).touch(exist_ok=False)
            return number
        number += 1


def _threads(command: Command, jobs: int) -> int | None:
    """How many threads each process computes with: together as many as the machine has cores, unless flags say."""
    if command.threads is not None:
        return int(command.threads)
    return None if jobs == 1 else max(1, (os.cpu_count() or 1) // jobs)


def _csv(rows: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _hash(paths: Sequence[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        with path.open("rb") as file:
            while content := file.read(_AT_ONCE):
                digest.update(content)
    return digest.hexdigest()


def _state(path: Path) -> tuple[int, int, int]:
    """What differs once a file is changed, or another one is in its place."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _part_of(output: Path) -> Path:
    return output.with_name(f".{output.name}.rows")


def _note_of(output: Path) -> Path:
    return output.with_name(f".{output.name}.note.json")


def _write(output: Path, note: Note) -> None:
    write_atomically(_note_of(output), json.dumps(unstructure(note)) + "\n")


@contextmanager
def _begun(output: Path, fresh: Note) -> Iterator[tuple[Note, IO[bytes]]]:
    """The note and the rows so far, open at their end; moved to the output when all went well.

    What is refused leaves nothing. After anything else that stops it, the same command resumes.
    """
    output = Path(os.path.realpath(output))
    if not output.parent.is_dir():
        raise ValueError(f"{output} cannot be written: there is no folder {output.parent}.")
    part = _part_of(output)
    with named_if_full(str(output)), part.open("ab") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = os.path.samestat(os.fstat(file.fileno()), part.stat())
            except (BlockingIOError, FileNotFoundError):
                is_ours = False
            if not is_ours:  # or it was, and is the output of another process by now
                raise ValueError(f"Another process is writing {output}: wait for it, or choose another name.")
        note = _resumed(output, fresh, file)
        try:
            yield note, file
            file.flush()
            os.fsync(file.fileno())
        except ValueError:
            _note_of(output).unlink(missing_ok=True)
            part.unlink(missing_ok=True)
            raise
        except (KeyboardInterrupt, ChildProcessError) as reason:
            if not note.num_rows:
                raise
            done = f"{note.num_rows} rows are done; the same command resumes there"
            raise type(reason)(" ".join([*map(str, reason.args), done])) from None
        os.replace(part, output)
        _note_of(output).unlink(missing_ok=True)


def _resumed(output: Path, fresh: Note, file: IO[bytes]) -> Note:
    """The note of an earlier call, if there is one; refused if it is of something else."""
    place = _note_of(output)
    if not place.is_file():
        file.truncate(0)
        return fresh
    remedy = f"remove {place} to begin anew, or choose another output"
    try:
        note = structure(Note, parse_json(place.read_text(encoding="utf-8")), "The note")
    except ValueError as error:
        raise ValueError(f"{place} is damaged ({str(error).rstrip('.')}): {remedy}.") from None
    changed = [what for what in ("input", "model") if getattr(note, what) != getattr(fresh, what)]
    changed += [f"setting {name}" for name, value in fresh.settings.items() if note.settings.get(name) != value]
    if changed:
        raise ValueError(f"{output} was begun and cannot be resumed, since the {changed[0]} has changed: {remedy}.")
    if note.num_bytes < 0 or os.fstat(file.fileno()).st_size < note.num_bytes:
        raise ValueError(f"{output} was begun, but rows of it are missing: {remedy}.")
    file.truncate(note.num_bytes)
    file.seek(0, os.SEEK_END)
    return note
