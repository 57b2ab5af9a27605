"""Where a run computes and where its data are stored: kept beside its configuration, since it changes no result."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawl.checks import check_type
from crawl.files import parse_json, write_atomically
from crawl.plain import LEFT_OUT, read_checked, structure, unstructure
from crawl.runs.former import former_where

if TYPE_CHECKING:
    from crawl.runs.folder import RunFolder


@dataclass(frozen=True)
class Where:
    """Where a run is.

    Attributes:
        device: Where to compute; `auto` takes a GPU if there is one.
        path: The file or folder with the data, for data of one's own.
        val_path: The file for validation, where `path` is for training only.
        test_path: The file for the test.
        root: The data root, for benchmarks; the variable CRAWL_DATA or ~/.cache/crawl when None.
    """

    device: str = "auto"
    path: str | None = None
    root: str | None = None
    val_path: str | None = field(default=None, metadata=LEFT_OUT)
    test_path: str | None = field(default=None, metadata=LEFT_OUT)

    def moved(
        self,
        device: str | None = None,
        path: str | Path | None = None,
        root: str | Path | None = None,
        val_path: str | Path | None = None,
        test_path: str | Path | None = None,
    ) -> Where:
        """The same, except for what is given. Paths become absolute, so that a run can be resumed from anywhere.

        Three files may move into a folder, which then has all of them. Refuses a device that is not a word: the folder
        of a run keeps it.
        """
        if device is not None:
            check_type("device", device, str, "give 'auto', 'cpu' or 'cuda'")
        given: dict[str, Any] = {"path": _absolute(path), "root": _absolute(root), "device": device}
        given |= {"val_path": _absolute(val_path), "test_path": _absolute(test_path)}
        has_others = given["path"] is None or not Path(given["path"]).is_dir()
        before = self if has_others else replace(self, val_path=None, test_path=None)
        return replace(before, **{name: value for name, value in given.items() if value is not None})

    @property
    def places(self) -> dict[str, str | None]:
        """Where the data are, as `load_dataset` takes it."""
        return {name: value for name, value in vars(self).items() if name != "device"}

    def write(self, run: RunFolder) -> None:
        """Keep it in the folder of a run."""
        write_atomically(run.where, json.dumps(unstructure(self), indent=2) + "\n")

    @classmethod
    def read(cls, run: RunFolder) -> Where:
        """What the folder of a run says; runs of older versions have it in their configuration."""
        is_older = not run.where.is_file()
        file = run.config if is_older else run.where

        def where(text: str) -> Where:
            values = parse_json(text)
            return structure(cls, former_where(values) if is_older else values, str(file))

        return read_checked(file, where, "remove it, and say where the data are")


def _absolute(path: str | Path | None) -> str | None:
    try:
        return None if path is None else str(Path(path).resolve())
    except RuntimeError:  # what pathlib raises here
        raise ValueError(f"{path} is a link that leads to itself.") from None
