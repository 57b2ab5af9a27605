"""A table in three files: one for training, one for validation and one for the test."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from crawl.checks import as_path
from crawl.data.packed import is_packed
from crawl.data.splits import Split
from crawl.data.table import Row, Table

_NAMES = {"train": ("train",), "val": ("valid", "val"), "test": ("test",)}
_PARTS = {"train": "training", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class PartPaths:
    """The files of the three parts."""

    train: Path
    val: Path
    test: Path

    @classmethod
    def of(
        cls, path: str | Path, val_path: str | Path | None = None, test_path: str | Path | None = None
    ) -> PartPaths | None:
        """The three files that are given, or those of a folder: `train.csv`, `valid.csv` or `val.csv`, and `test.csv`,
        each plain or with `.gz`. None if `path` alone is given and is not a folder.

        Refuses a file that is given twice, two files where three are needed, and folders without the three.
        """
        path = as_path("path", path)
        given = {"val_path": val_path, "test_path": test_path}
        named = {name: as_path(name, value) for name, value in given.items() if value is not None}
        if path.is_dir():
            if named:
                raise ValueError(f"{path} is a folder, which has all three files: leave out {' and '.join(named)}.")
            if is_packed(path):
                raise ValueError(f"{path} is a packed store: train with crawl train packed, or call open_packed.")
            return cls(**{part: _in_folder(path, part) for part in _NAMES})
        if not named:
            return None
        if missing := [name for name in given if name not in named]:
            flag = f"--data.{missing[0].replace('_', '-')} (in Python {missing[0]}=…)"
            raise ValueError(f"{flag} is missing: give files for training, validation and test, or a single one.")
        paths = {"path": path, **named}
        for name, file in paths.items():
            if not file.is_file():
                raise ValueError(f"There is no file {file} ({name}).")
        first = dict[Path, str]()
        for name, file in paths.items():
            if (other := first.setdefault(file.resolve(), name)) != name:
                raise ValueError(f"{other} and {name} are the same file, {file}: give three different ones.")
        return cls(path, **{name.removesuffix("_path"): file for name, file in named.items()})


class PartTables(Table):
    """Three CSV files with the same columns, in any order, as one table; `Row.file` says which a row is from."""

    def __init__(self, paths: PartPaths) -> None:
        super().__init__(paths.train)
        self.paths = paths
        self._tables = [Table(file) for file in vars(paths).values()]
        for table in self._tables[1:]:
            self._check_same(self._tables[0], table)
            self._check_same(table, self._tables[0])

    @property
    def title(self) -> str:
        """What messages call it."""
        train, val, test = vars(self.paths).values()
        return f"{train}, {val} and {test}"

    @property
    def name(self) -> str:
        """The name of the folder, if the three are in one, or else of the first file."""
        folders = {file.resolve().parent for file in vars(self.paths).values()}
        return folders.pop().name if len(folders) == 1 else super().name

    def __iter__(self) -> Iterator[Row]:
        for table in self._tables:
            is_empty = True
            for row in table:
                is_empty = False
                yield replace(row, file=table.path)
            if is_empty:
                raise ValueError(f"{table.path} has a header but no rows.")

    def check_column(self, name: str) -> None:
        """Refuses a name that no column has, or more than one, in any of the files."""
        for table in self._tables:
            table.check_column(name)

    def split(self, rows: Sequence[Row]) -> Split:
        """The split of the rows that can be used, by the files they are from. Refuses an empty part."""
        ids = {part: [i for i, row in enumerate(rows) if row.file == file] for part, file in vars(self.paths).items()}
        for part, members in ids.items():
            if not members:
                raise ValueError(f"No row of {getattr(self.paths, part)}, the {_PARTS[part]} file, can be used.")
        return Split(**{part: torch.tensor(members) for part, members in ids.items()})

    def warn_of_leaks(self, rows: Sequence[Row], keys: Sequence[Hashable]) -> None:
        """Warn of what is in more than one file; rows with the same key are the same."""
        files = Counter(key for _, key in set(zip((row.file for row in rows), keys, strict=True)))
        shared = {key for key, number in files.items() if number > 1}
        if shared:
            per_file = Counter(row.file for row, key in zip(rows, keys, strict=True) if key in shared)
            counts = ", ".join(f"{count} rows of {file}" for file, count in per_file.items())
            are = "molecule is" if len(shared) == 1 else "molecules are"
            warnings.warn(
                f"{len(shared)} {are} in more than one file ({counts}), so scores may be better than on new molecules.",
                UserWarning,
                stacklevel=3,
            )

    @staticmethod
    def _check_same(one: Table, other: Table) -> None:
        missing = [column for column in one.columns if column not in other.columns]
        if missing:
            raise ValueError(
                f"{other.path} has no column {missing[0]!r}, which {one.path} has: the three files need the same "
                "columns."
            )


def _in_folder(folder: Path, part: str) -> Path:
    names = [f"{name}.csv{ending}" for name in _NAMES[part] for ending in ("", ".gz")]
    found = [folder / name for name in names if (folder / name).is_file()]
    if len(found) != 1:
        wanted = " or ".join(f"{name}.csv" for name in _NAMES[part])
        problem = f"has no {wanted}" if not found else f"has both {found[0].name} and {found[1].name}"
        raise ValueError(f"The folder {folder} {problem}: it needs one file for training, validation and test each.")
    return found[0]
