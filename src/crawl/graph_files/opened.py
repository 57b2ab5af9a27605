"""A file that is mapped into memory, and whether it is still what it was when it was opened."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import IO, Any


class OpenedFile:
    """A file that is mapped: what has read some of it asks here whether that was right.

    The size and the time of the last change are compared, through a descriptor of its own: a file that has since taken
    its name, as when a graph is built anew, is another one. Its links and its mode (ctime) do not count, for they
    change nothing that is read. A copy, as pickle makes one, is None: what is copied is in memory.

    Args:
        path: What to call it in messages.
        file: The file, before anything was read.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self._state = self._now()

    def check_unchanged(self) -> None:
        """Refuse the file if it was changed since it was opened.

        Raises:
            ValueError: If so; what was read since may be of another file.
        """
        if self._now() != self._state:
            raise ValueError(
                f"{self.path} was changed while it was read, so what was read may be wrong: put back the file as it "
                "was, and resume or begin again."
            )

    def _now(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()
