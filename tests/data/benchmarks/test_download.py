"""Downloads: only from the named addresses, only over https, and only the files that are looked for."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import torch
from tiny_files import EDGES

import crawl
from crawl.data.benchmarks import BENCHMARKS, is_ready, load_benchmark
from crawl.data.benchmarks.download import download
from crawl.data.benchmarks.record import Form

SOURCE = Path(crawl.__file__).parent


class Answer(io.BytesIO):
    """What a server answers."""

    def __init__(self, content: bytes, url: str) -> None:
        super().__init__(content)
        self.url = url


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What is at each address; an address with `→` in its content leads elsewhere."""
    contents: dict[str, bytes] = {}

    def urlopen(url: str, timeout: float) -> Answer:
        if url not in contents:
            raise OSError(f"Nothing is at {url}")
        assert timeout > 0
        return Answer(contents[url], str(contents.get("leads to", url)))

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return contents


def archive(**files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return content.getvalue()


def form(*urls: str, files: tuple[str, ...] = ("a.txt", "raw/b.txt"), sha256: str = "") -> Form:
    return Form(files=files, read=lambda *_: None, downloads=tuple(urls), sha256=sha256)


def test_files_come_from_archives_and_by_themselves(tmp_path, served):
    served["https://x.org/x.zip?dl=1"] = archive(**{"top/raw/b.txt": b"B", "top/c.txt": b"C"})
    served["https://x.org/a.txt"] = b"A"
    paths = download(form("https://x.org/x.zip?dl=1", "https://x.org/a.txt"), tmp_path)
    assert [path.read_bytes() for path in paths] == [b"A", b"B"]


def test_only_the_files_that_are_looked_for_are_unpacked(tmp_path, served):
    """Others might be read by somebody: OGB loads a file `processed/…` that an archive brings, and runs it."""
    served["https://x.org/x.zip"] = archive(
        **{"a.txt": b"A", "raw/b.txt": b"B", "processed/data.pt": b"P", "../evil.txt": b"E", "/evil.txt": b"E"}
    )
    folder = tmp_path / "raw"
    folder.mkdir()
    download(form("https://x.org/x.zip"), folder)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        *("raw/a.txt", "raw/raw/b.txt")
    ]


def test_an_address_that_leads_out_of_https_is_refused(tmp_path, served):
    served["https://x.org/a.txt"] = b"A"
    served["leads to"] = "http://x.org/a.txt"  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"leads to http://x\.org/a\.txt, which is not https"):
        download(form("https://x.org/a.txt"), tmp_path)


def test_a_checksum_is_checked(tmp_path, served):
    served["https://x.org/a.txt"] = b"A"
    right = hashlib.sha256(b"A").hexdigest()
    download(form("https://x.org/a.txt", sha256=right), tmp_path)
    with pytest.raises(ValueError, match=f"has the SHA-256 {right}, not 1234"):
        download(form("https://x.org/a.txt", sha256="1234"), tmp_path)


def test_all_addresses_are_https():
    urls = [url for each in BENCHMARKS.values() if each.form for url in each.form.downloads]
    assert len(urls) == 22
    assert all(url.startswith("https://") for url in urls)


def test_the_promises_name_where_each_benchmark_comes_from():
    text = (Path(__file__).parents[3] / "SECURITY.md").read_text()
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+\.(?:com|org|edu)) \|$", text, flags=re.MULTILINE))
    named = {title: set(hosts.split(", ")) for titles, hosts in rows.items() for title in titles.split(", ")}
    assert named == {
        each.title: {urlsplit(url).hostname for url in each.form.downloads}
        for each in BENCHMARKS.values()
        if each.form is not None
    }


def test_nothing_else_uses_a_network():
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"urlopen|urlretrieve|download_url|http\.client|import (socket|requests|ssl)\b", path.read_text())
    }
    asked_for = {
        "runs/cluster/connection.py",
        "training/connections.py",
    }  # by --ray, and where processes train together
    assert users == {"data/benchmarks/download.py", *asked_for}


def molecules() -> Any:
    bonds = torch.zeros(3, 3, dtype=torch.long)
    bonds[EDGES[0], EDGES[1]] = 1
    molecule = {"atom_type": torch.tensor([0, 5, 20]), "bond_type": bonds}
    return [molecule | {"logP_SA_cycle_normalized": torch.tensor([float(i)])} for i in range(4)]


def serve_zinc(served: dict[str, bytes], train: Any) -> None:
    source = BENCHMARKS["zinc"].form
    assert source is not None
    files = {f"molecules/{part}.pickle": pickle.dumps(molecules()) for part in ("val", "test")}
    files["molecules/train.pickle"] = pickle.dumps(train)
    for url in source.downloads:
        served[url] = archive(**files) if ".zip" in url else b"1,3\n" if "train" in url else b"2\n"


def test_a_benchmark_that_is_not_there_is_downloaded(tmp_path, served, shrink, capsys):
    shrink("zinc", (2, 1, 1), 3, 4)
    serve_zinc(served, molecules())
    dataset = load_benchmark("zinc", tmp_path)
    assert dataset.store.y.flatten().tolist() == [1, 3, 2, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["zinc.npz"]
    assert "downloading https://www.dropbox.com/" in capsys.readouterr().err
    served.clear()
    assert len(load_benchmark("zinc", tmp_path)) == 4


def test_a_payload_in_a_download_does_not_run(tmp_path, served, shrink):
    class Payload:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    shrink("zinc", (2, 1, 1), 3, 4)
    serve_zinc(served, [Payload()])
    with pytest.raises(ValueError, match=r"ZINC is not in .* and could not be .*train\.pickle asks for posix\.mkdir"):
        load_benchmark("zinc", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_download_without_its_files_is_refused(tmp_path, served, shrink, monkeypatch):
    served["https://x.org/x.zip"] = archive(other=b"A")
    source = BENCHMARKS["mnist"].form
    assert source is not None
    form = replace(source, downloads=("https://x.org/x.zip",))
    monkeypatch.setitem(BENCHMARKS, "mnist", replace(BENCHMARKS["mnist"], form=form))
    with pytest.raises(ValueError, match=r"MNIST is not in .*MNIST_v2\.pt.*crawl datasets import mnist PATH"):
        load_benchmark("mnist", tmp_path)
    assert not is_ready("mnist", tmp_path)
