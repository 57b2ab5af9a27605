"""Tables in CSV files, read row by row."""

from __future__ import annotations

import csv
import gzip
import itertools
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from crawl.checks import as_path, shown, suggestion

UNNAMED = "Unnamed: "  # what the names of columns without one begin with


def in_folder(folder: Path, name: str) -> Path | None:
    """The file NAME or NAME.gz in a folder; None if there is neither. Refuses both, which may differ."""
    plain, compressed = folder / name, folder / f"{name}.gz"
    if plain.is_file() and compressed.is_file():
        raise ValueError(f"{folder} has {name} and {name}.gz: leave one of them elsewhere, so that the table is clear.")
    return next((path for path in (plain, compressed) if path.is_file()), None)


@dataclass(frozen=True)
class Row:
    """A row of a table: the text in each column, without spaces around it."""

    line: int  # where it begins in the file; the header is in line 1
    cells: dict[str, str]
    problem: str | None = None  # why it cannot be used
    file: Path | None = None  # where there are several

    @property
    def place(self) -> str:
        """Where it is, for messages: `line 7`, with the file where there are several."""
        return f"line {self.line}" if self.file is None else f"{self.file}, line {self.line}"


class Table:
    """A CSV file, plain or compressed with gzip, whose first line names the columns.

    Columns are called as pandas calls them: one without a name, as pandas writes its index, is `Unnamed: 0`, counted
    from 0, and the second of two columns called `a` is `a.1`; `check_column` then refuses `a`, which is not clear.

    Iterating reads one row after the other, from the first on each time. Empty lines are passed over. Where the header
    has no comma, tabs or semicolons separate the columns. Windows line ends, a byte order mark, quoted fields and line
    breaks in them are fine.

    Attributes:
        path: The file.
        header: What the file itself calls its columns.
        columns: What they are called here, each in another way.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = as_path("path", path)
        if self.path.is_fifo():
            raise ValueError(f"{self.path} is a pipe, and a table is read more than once: write it to a file first.")
        _, header = next(self._records(), (1, []))
        self.header = tuple(name.strip() for name in header)
        if not any(self.header):
            raise ValueError(f"{self.path} is empty; its first line must name the columns.")
        self.columns = _different(self.header)

    @property
    def title(self) -> str:
        """What messages call it."""
        return str(self.path)

    @property
    def name(self) -> str:
        """The name of the file without its endings."""
        return self.path.name.removesuffix(".gz").rsplit(".", 1)[0]

    def __iter__(self) -> Iterator[Row]:
        for line, record in itertools.islice(self._records(), 1, None):
            fields = [field.strip() for field in record] + [""] * (len(self.columns) - len(record))
            cells = dict(zip(self.columns, fields, strict=False))
            problem = f"it has {len(record)} fields, but the header {len(self.columns)}"
            yield Row(line, cells, problem if len(record) != len(self.columns) else None)

    def check_column(self, name: str) -> None:
        """Refuses a name that no column has, or more than one."""
        if not isinstance(name, str) or name not in self.columns:
            raise ValueError(f"{self.path} has no column {shown(name)}.{suggestion(name, self.columns)}")
        same = [number for number, other in enumerate(self.header, 1) if other == name]
        if len(same) > 1:
            raise ValueError(f"{self.path}: columns {same[0]} and {same[1]} are both called {name!r}; rename one.")

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """The line and the fields of each record, the header first."""
        end = 0
        try:
            with self.path.open("rb") as file:
                is_compressed = file.read(2) == b"\x1f\x8b"
            open_text = gzip.open if is_compressed else open
            with open_text(self.path, "rt", encoding="utf-8-sig", newline="") as lines:
                header = lines.readline()
                separator = next((character for character in ",\t;" if character in header), ",")
                reader = csv.reader(itertools.chain([header], lines), delimiter=separator)
                for record in reader:
                    start, end = end + 1, reader.line_num
                    if record:
                        yield start, record
        except UnicodeDecodeError:
            raise ValueError(f"{self.path} is not text in UTF-8; save it as CSV in UTF-8.") from None
        except csv.Error as error:
            hint = ": a closing quote may be missing" if "field limit" in str(error) else ""
            raise ValueError(f"{self.path}, line {end + 1}: {error}{hint}.") from None
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{self.path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def number_in(cell: str) -> float | None:
    """The number in a cell; None for words, also for `1_000` and digits of other scripts, which Python would take."""
    if "_" in cell or not cell.isascii():
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _different(header: Sequence[str]) -> tuple[str, ...]:
    """A name for each column that no other has; the first that is called so keeps it."""
    taken, kept = set(header), set[str]()
    numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
    names = []
    for i, given in enumerate(header):
        name = given or f"{UNNAMED}{i}"
        if not given or given in kept:
            wanted = name
            while name in taken:
                name = f"{wanted}.{next(numbers[wanted])}"
        names.append(name)
        kept.add(name)
        taken.add(name)
    return tuple(names)
