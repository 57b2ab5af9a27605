"""Packed stores: damaged, changed and exchanged files are refused; whole-store operations are, too."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crawl.data import Dataset, Fingerprint, GraphStore, open_packed
from crawl.data import packed as packed_module
from crawl.data.pack import pack_csv, pack_graphs
from crawl.data.packed import PackedStore, manifest_text
from crawl.data.packing import new_folder
from crawl.graph_files.arrays import mapped_bytes
from tests.graph_files.test_opened import change


def graphs(number: int = 8) -> list[Data]:
    edges = torch.tensor([[0, 1, 2, 1], [1, 2, 1, 0]])
    return [Data(x=torch.full((3, 2), i), edge_index=edges, y=torch.tensor([i / 3 + 0.1])) for i in range(number)]


@pytest.fixture
def packed(tmp_path: Path) -> Dataset:
    return pack_graphs(graphs(), tmp_path / "store", shards=2)


def test_it_stays_in_files(packed: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    store = packed.store
    assert isinstance(store, PackedStore)
    assert store.x is not None
    assert (store.x.device.type, tuple(store.x.shape), store.num_edges) == ("meta", (24, 2), 32)
    assert "num_graphs=8" in repr(store)
    with pytest.raises(ValueError, match="not in memory"):
        store.joined()
    with pytest.raises(ValueError, match="not in memory"):
        GraphStore.concatenate([store, store])
    with pytest.raises(ValueError, match="There is no graph 8"):
        store.subset([8])
    assert store.to("cpu") is store
    with pytest.raises(ValueError, match="stays in its files"):
        store.to("cuda")
    monkeypatch.setattr("crawl.data.packed._MOST_RESIDENT", 1)  # pages are given back each time
    first = [store.subset([i, 7 - i]).x for i in range(8)]
    assert all(torch.equal(x[[0, 3], 0], torch.tensor([i, 7 - i])) for i, x in enumerate(first) if x is not None)
    assert packed.graph_names is not None
    assert (packed.graph_names[-1], list(packed.graph_names[2:4])) == ("7", ["2", "3"])


def test_pages_are_given_back_by_what_the_system_has_mapped(packed: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may map far more than was read."""
    store = packed.store
    assert isinstance(store, PackedStore)
    now, given_back = [0], []
    monkeypatch.setattr("crawl.data.packed.mapped_bytes", lambda: now[0])
    monkeypatch.setattr("crawl.data.packed._RUNS_AT_ONCE", 1)
    monkeypatch.setattr(type(store.files[0]), "release", lambda file: given_back.append((file.path.name, now[0])))
    store.subset([0])
    now[0] = 2**26 - 1
    store.subset([1])
    assert given_back == []
    now[0] = 2**26
    store.subset([2])
    assert given_back == [("shard-0.crawl", 2**26), ("shard-1.crawl", 2**26)]  # what stays mapped counts no more
    now[0] = 2**24
    store.subset([3])
    now[0] += 2**26
    store.subset([4])
    assert given_back[2:] == [("shard-0.crawl", 2**24 + 2**26), ("shard-1.crawl", 2**24 + 2**26)]


def test_rows_are_read_in_pieces_of_few_runs() -> None:
    rows = torch.cat([torch.arange(5), torch.arange(10, 12), torch.tensor([7]), torch.arange(20, 23)])
    for most_rows, most_runs, expected in ((100, 2, [0, 7, 11]), (4, 2, [0, 4, 7, 11]), (100, 9, [0, 11])):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packed_module, "_TAKEN_AT_ONCE", most_rows)
            patch.setattr(packed_module, "_RUNS_AT_ONCE", most_runs)
            assert list(packed_module._pieces_of(rows)) == list(pairwise(expected))
    assert list(packed_module._pieces_of(rows[:0])) == []


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="the system does not say what it has mapped")
def test_the_system_says_what_it_has_mapped(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(2**24))
    before = mapped_bytes()
    content = np.memmap(file, np.uint8)
    assert content.sum() == 0  # reads all pages
    assert 2**23 < mapped_bytes() - before < 2**25


def test_functions_are_applied_to_what_is_cut(packed: Dataset) -> None:
    store = packed.store
    assert isinstance(store, PackedStore)

    def wider(part: GraphStore) -> GraphStore:
        assert part.x is not None
        return GraphStore(part.node_ptr, part.edge_ptr, part.edge_index, torch.cat([part.x, part.x], dim=1), y=part.y)

    found = store.then(wider)
    assert found.x is not None
    assert tuple(found.x.shape) == (24, 4)
    assert torch.equal(found.subset([5]).x, torch.full((3, 4), 5))


def test_every_changed_byte_and_every_missing_file_is_found(packed: Dataset, tmp_path: Path) -> None:
    for file in sorted((tmp_path / "store").iterdir()):
        content = file.read_bytes()
        shorter, longer = content[: len(content) // 2], content + b"\0"
        for changed in (shorter, longer, b"", None):
            file.unlink()
            if changed is not None:
                file.write_bytes(changed)
            with pytest.raises(ValueError, match=r"damaged|cannot be read|is not a packed store"):
                open_packed(tmp_path / "store", verify=False)
        for place in range(0, len(content), 7):
            if content[place : place + 1] in b" \n":  # white space in a header means nothing
                continue
            file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(ValueError, match="damaged"):
                open_packed(tmp_path / "store")
        file.write_bytes(content)
    open_packed(tmp_path / "store")


@pytest.mark.parametrize("name", ["graphs.crawl", "shard-1.crawl"])
def test_a_file_that_is_changed_in_place_is_refused(packed: Dataset, tmp_path: Path, name: str) -> None:
    stores = [packed.store, packed.store.then(lambda store: store), packed.store.with_weights(torch.ones(8))]
    path = next(tmp_path.rglob(name))
    change(path, path.read_bytes()[:100])
    for store in stores:
        with pytest.raises(ValueError, match=f"{path} was changed while it was read"):
            store.subset([0])
    with pytest.raises(ValueError, match="was changed"):
        Fingerprint.of(packed)


def test_files_of_another_store_are_refused(packed: Dataset, tmp_path: Path) -> None:
    pack_graphs([*reversed(graphs())], tmp_path / "other", shards=2)
    shutil.copy(tmp_path / "other" / "shard-1.crawl", tmp_path / "store" / "shard-1.crawl")
    with pytest.raises(ValueError, match=r"shard-1.crawl .*not the one that pack.json names"):
        open_packed(tmp_path / "store")


def test_a_list_of_skipped_rows_that_was_changed_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    (tmp_path / "rows.csv").write_text("SMILES,y\n" + "C,1.5\nCC,2\nCCC,3\nCCCC,4\nCCCCC,5\n" + "x,1\nyz,2\n")
    expected = pack_csv(tmp_path / "rows.csv", tmp_path / "store", "SMILES", "y").skipped
    assert [line.partition(":")[0] for line in expected] == ["line 7", "line 8"]
    store = tmp_path / "store"
    path, content = store / "skipped.txt", (store / "skipped.txt").read_bytes()
    values = json.loads((store / "pack.json").read_text())
    del values["crc32"], values["files"]["skipped.txt"]
    for is_older in (False, True):
        if is_older:
            (store / "pack.json").write_text(manifest_text(values))
        for changed in (content[:-1], content + b"more\n", b"\xff" + content, b"", None):
            path.unlink()
            if changed is not None:
                path.write_bytes(changed)
            with pytest.raises(ValueError, match=r"skipped.txt (is damaged|cannot be read).*pack the data again"):
                open_packed(store, verify=False)
            path.write_bytes(content)
        assert open_packed(store).skipped == expected


def test_a_folder_that_somebody_was_faster_to_write_is_named(tmp_path: Path) -> None:
    for make in (lambda place: place.mkdir() or (place / "a").touch(), Path.touch):
        place = tmp_path / f"store{make.__name__}"
        with pytest.raises(ValueError, match=f"{place} exists already: choose another"), new_folder(place):
            make(place)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_forged_list_is_refused(packed: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "store" / "pack.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "shards": [1, 7]}))
    with pytest.raises(ValueError, match=r"pack.json is damaged.*checksum"):
        open_packed(tmp_path / "store")
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"pack.json is damaged"):
        open_packed(tmp_path / "store")
    with pytest.raises(ValueError, match="is not a packed store"):
        open_packed(tmp_path)
