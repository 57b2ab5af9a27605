"""Files that are written whole or not at all, and JSON from files that anybody may have written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_DEEPEST = 100  # nothing of ours is nested as deep, and deeper values break whatever looks at them


@contextmanager
def whole_file(path: Path, binary: bool = True) -> Iterator[IO[Any]]:
    """A file to write, beside its place; moved there when all went well.

    Raises:
        OSError: If it cannot be written. A file that was at `path` before is still there then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") if binary else open(temporary, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file whole or not at all."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def parse_json(text: str | bytes) -> Any:
    """The value that is written in JSON.

    Raises:
        ValueError: If the text is something else, or is nested more than 100 deep.
    """
    too_deep = f"it is nested more than {_DEEPEST} deep"
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [part for part in level if isinstance(part, dict | list)]
        if not level:
            return value
        level = [item for part in level for item in (part.values() if isinstance(part, dict) else part)]
    raise ValueError(too_deep)
