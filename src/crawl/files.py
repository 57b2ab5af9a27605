"""Files that are written whole or not at all, other places, which are written straight, and JSON that anybody may have
written."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

_DEEPEST = 100  # nothing of ours is nested as deep, and deeper values break whatever looks at them
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))  # only writing ends like this
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


@contextmanager
def whole_file(path: Path, binary: bool = True) -> Iterator[IO[Any]]:
    """A file to write, beside its place; moved there when all went well.

    Links are followed. A file that is replaced keeps its permissions. What is not a regular file (a device, a pipe,
    `/dev/stdout`, `/dev/fd/3`) is written straight.

    Raises:
        OSError: If it cannot be written; the error names `path`. A file that was there before is still there then.
    """
    if not is_regular(path):
        descriptor = _descriptor(path)
        with named_if_full(str(path)), _open(path if descriptor is None else descriptor, path, binary) as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with named_if_full(str(path)), _open(temporary, path, binary, mode="x") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _keep_permissions(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def named_if_full(name: str) -> Iterator[None]:
    """Within, an `OSError` because nothing more can be written there has a name: Python gives it none."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, name) from error


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file whole or not at all."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def parse_json(text: str | bytes) -> Any:
    """The value that is written in JSON. Refuses other text, and what is nested more than 100 deep."""
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


def is_regular(path: Path) -> bool:
    """Whether writing there means a regular file, new or in the place of an old one.

    Raises:
        OSError: If it is a folder, or links lead in a circle.
    """
    if _descriptor(path) is not None:
        return False
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory; give a file", str(path))
    return stat.S_ISREG(mode)


def _descriptor(path: Path) -> int | None:
    """The open descriptor that a path names, itself or through links: 1 for `/dev/stdout`, 3 for `/dev/fd/3`."""
    name = os.path.abspath(path)
    for _ in range(40):  # links: as many as Linux follows
        if name in _STREAMS:
            return _STREAMS[name]
        if found := re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", name):
            return int(found[1])
        if not os.path.islink(name):
            return None
        name = os.path.normpath(os.path.join(os.path.dirname(name), os.readlink(name)))
    return None


def _open(place: Path | int, path: Path, binary: bool, mode: str = "w") -> IO[Any]:
    """`place`, open to be written; errors name `path`."""
    try:
        if isinstance(place, int):
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:  # it was closed
                    stream.flush()  # what was printed before comes first
            place = os.dup(place)
        elif mode == "x":  # a new file, never through a link that somebody put there
            place.unlink(missing_ok=True)
        return open(place, f"{mode}b") if binary else open(place, mode, encoding="utf-8", newline="")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _keep_permissions(target: Path, temporary: Path) -> None:
    """Give a new file the owner and the mode of the one it replaces."""
    if not target.exists():
        return
    with suppress(AttributeError, OSError):  # only root may give files away, and not everywhere
        owner = target.stat()
        os.chown(temporary, owner.st_uid, owner.st_gid)
    shutil.copymode(target, temporary)
