"""Downloads of benchmarks: the only place where CRaWl uses a network.

Only the addresses in `published` are opened, over https with checked certificates. Of an archive, only the files that
are looked for are unpacked.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit
from zipfile import ZipFile

from crawl.data.benchmarks.record import Form

_SECONDS_FOR_AN_ANSWER = 20  # of a server, before it counts as out of reach


def download(form: Form, folder: Path) -> list[Path]:
    """The files of a form, in a folder.

    Raises:
        OSError: If an address cannot be reached, or the disk is full.
        ValueError: If what came is not what was published.
    """
    for url in form.downloads:
        target = folder / Path(urlsplit(url).path).name
        _fetch(url, form.sha256, target)
        if target.suffix == ".zip":
            _unpack(target, form.files, folder)
            target.unlink()
    return [folder / name for name in form.files]


def _fetch(url: str, sha256: str, target: Path) -> None:
    print(f"downloading {url}", file=sys.stderr)
    with urllib.request.urlopen(url, timeout=_SECONDS_FOR_AN_ANSWER) as answer, open(target, "wb") as file:
        if not answer.url.startswith("https://"):
            raise ValueError(f"{url} leads to {answer.url}, which is not https")
        shutil.copyfileobj(answer, file)
    if sha256:
        with open(target, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise ValueError(f"{url} has the SHA-256 {found}, not {sha256}")


def _unpack(archive: Path, files: tuple[str, ...], folder: Path) -> None:
    """Unpack the files that an archive has, from whichever of its folders."""
    with ZipFile(archive) as opened:
        for name in files:
            member = next((each for each in opened.namelist() if f"/{each}".endswith(f"/{name}")), None)
            if member is None:
                continue
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(member) as packed, open(target, "wb") as file:
                shutil.copyfileobj(packed, file)
