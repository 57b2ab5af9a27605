"""A packed store is what `from_csv` and `from_pyg` have in memory: the same graphs, targets, split and fingerprint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crawl.data import Dataset, Fingerprint, GraphStore, Split, from_csv, from_pyg, open_packed
from crawl.data.pack import pack_csv, pack_graphs
from crawl.data.packed import PackedStore

pytest.importorskip("rdkit")

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "C1CC1", "CCN(CC)CC", "Oc1ccccc1", "C1CCCCC1C", "CC#N", "[Na+].[Cl-]", "CCCl"]
ROWS = [(smiles, f"{i * 0.37 - 2:.3f}", str(i % 2), str(i + 1)) for i, smiles in enumerate(3 * SMILES)]


def table(tmp_path: Path, rows: Any = ROWS, name: str = "molecules.csv") -> Path:
    path = tmp_path / name
    path.write_text("SMILES,y,active,w\n" + "".join(",".join(row) + "\n" for row in rows))
    return path


def loaded(dataset: Dataset) -> GraphStore:
    assert isinstance(dataset.store, PackedStore)
    return dataset.store.subset(torch.arange(len(dataset)))


def assert_same(packed: Dataset, expected: Dataset) -> None:
    assert (packed.name, packed.task, packed.skipped) == (expected.name, expected.task, expected.skipped)
    assert (packed.node_categories, packed.edge_categories) == (expected.node_categories, expected.edge_categories)
    assert packed.split.to_json() == expected.split.to_json()
    assert list(packed.graph_names or ()) == list(expected.graph_names or map(str, range(len(expected))))
    store = loaded(packed)
    for name, value in vars(expected.store).items():
        found = getattr(store, name)
        assert torch.equal(found, value) if isinstance(value, torch.Tensor) else found == value, name
        if isinstance(value, torch.Tensor):
            assert found.dtype == value.dtype, name
    assert Fingerprint.of(packed) == Fingerprint.of(expected)


BAD = [*ROWS[:9], ("CC(", "1.0", "0", "1"), *ROWS[9:20], ("CCC", "", "1", "1"), ("CC", "2", "0", "x"), *ROWS[20:]]


@pytest.mark.parametrize(
    ("rows", "how"),
    [
        (ROWS, {"target_columns": "y"}),
        (ROWS, {"target_columns": "active", "split": "stratified", "weight_column": "w"}),
        (ROWS, {"target_columns": ("active", "y"), "split": "scaffold", "seed": 3}),
        (BAD, {"target_columns": "y", "weight_column": "w", "fractions": (0.6, 0.2, 0.2)}),
        (BAD, {"target_columns": "active", "task": "multiclass"}),
        (BAD, {"target_columns": "y", "metric": "rmse"}),
    ],
)
@pytest.mark.parametrize("shards", [1, 3])
def test_it_is_what_from_csv_has(tmp_path: Path, rows: Any, how: Any, shards: int, monkeypatch: Any) -> None:
    monkeypatch.setattr("crawl.data.pack._ROWS_AT_A_TIME", 7)
    monkeypatch.setattr("crawl.data.packing._GRAPHS_AT_ONCE", 5)
    path = table(tmp_path, rows)
    pack_csv(path, tmp_path / "store", "SMILES", shards=shards, **how)
    packed, expected = open_packed(tmp_path / "store"), from_csv(path, "SMILES", **how)
    assert_same(packed, expected)
    skipped = tmp_path / "store" / "skipped.txt"
    assert skipped.is_file() == (rows is BAD)
    if rows is BAD:
        assert skipped.read_text().splitlines() == list(expected.skipped)
        assert skipped.read_text().startswith("line 11: 'CC(' is not a molecule")
    ids = torch.tensor([17, 3, 3, 29])
    batch, like = packed.store.batch(ids), expected.store.batch(ids)
    assert all(torch.equal(batch[key], like[key]) for key in like.to_dict() if isinstance(like[key], torch.Tensor))
    assert packed.store.graph(4).num_nodes == expected.store.graph(4).num_nodes


def test_words_missing_labels_files_and_columns_of_splits(tmp_path: Path) -> None:
    rows = [
        (s, ("low", "high", "mid")[i % 3], "" if i % 4 == 0 else str(i % 2), "train") for i, (s, *_) in enumerate(ROWS)
    ]
    rows = [(*row[:3], ("train", "train", "val", "test")[i % 4]) for i, row in enumerate(rows)]
    path = table(tmp_path, rows)
    for k, how in enumerate(
        ({"target_columns": "y", "split": "w"}, {"target_columns": ("active",), "task": "multilabel"})
    ):
        pack_csv(path, tmp_path / f"store{k}", **how)
        assert_same(open_packed(tmp_path / f"store{k}"), from_csv(path, **how))
    split = Split(torch.arange(20), torch.arange(20, 25), torch.arange(25, 30))
    (tmp_path / "split.json").write_text(split.to_json())
    how = {"target_columns": "y", "split": tmp_path / "split.json"}
    pack_csv(path, tmp_path / "store", **how)
    assert_same(open_packed(tmp_path / "store"), from_csv(path, **how))


def test_three_files_several_molecules_and_processes(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, rows in (("train", ROWS[:8]), ("valid", ROWS[10:14]), ("test", ROWS[15:19])):
        text = "".join(f"{s},O,{y}\n" for s, y, *_ in rows)
        (folder / f"{name}.csv").write_text("a,b,y\n" + text + (f"CC(,O,{len(text)}\n"))
    how: Any = {"smiles_column": ("a", "b"), "target_columns": "y"}
    pack_csv(folder, tmp_path / "store", jobs=2, **how)
    with pytest.warns(UserWarning, match="in more than one file"):
        expected = from_csv(folder, **how)
    assert_same(open_packed(tmp_path / "store"), expected)


def test_it_is_what_from_pyg_has(tmp_path: Path, monkeypatch: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for i in range(12):
        size, num_edges = 2 + i % 4, 3 + i % 3
        edges = torch.randint(size, (2, num_edges), generator=generator)
        x = torch.randint(300, (size, 2), generator=generator)
        graphs.append(
            Data(
                x=x, edge_index=edges, edge_attr=torch.rand(num_edges, 2, generator=generator), y=torch.tensor([i % 3])
            )
        )
    pack_graphs(iter(graphs), tmp_path / "store", name="list", shard_size=5)
    assert sorted(file.name for file in (tmp_path / "store").glob("shard*")) == [f"shard-{i}.crawl" for i in range(3)]
    assert_same(open_packed(tmp_path / "store"), from_pyg(graphs, name="list"))
    with pytest.raises(ValueError, match=r"from number 0 on.*have no targets"):
        pack_graphs([Data(x=torch.rand(2, 1))], tmp_path / "other")
    monkeypatch.setattr("crawl.data.pack._ROWS_AT_A_TIME", 5)
    with pytest.raises(ValueError, match=r"^Graph 9 has x of shape \[2, 1\]"):
        pack_graphs([*graphs[:9], Data(x=torch.ones(2, 1).long(), y=torch.tensor([1]))], tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "say which columns to predict"),
        ({"target_columns": "nope"}, "no column 'nope'"),
        ({"target_columns": "y", "split": "nope"}, "neither a way to split"),
        ({"target_columns": "y", "shards": 2, "shard_size": 5}, "give one of them"),
        ({"target_columns": "y", "shards": 100}, "too few for 100 shards"),
        ({"target_columns": "y", "shards": 0}, "shards must be"),
        ({"target_columns": "y", "jobs": 0}, "jobs must be"),
        ({"target_columns": "y", "bad_rows": "refuse"}, "line 11: 'CC\\(' is not a molecule"),
        ({"target_columns": "y", "weight_column": "nope"}, "no column 'nope'"),
        ({"target_columns": "y", "split": "active"}, "The split column says '0' in line 2"),
        ({"target_columns": "y", "task": "binary"}, "a binary task has two"),
    ],
)
def test_what_is_refused_leaves_nothing(tmp_path: Path, how: Any, message: str) -> None:
    path = table(tmp_path, BAD)
    with pytest.raises(ValueError, match=message):
        pack_csv(path, tmp_path / "store", **how)
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    pack_csv(table(tmp_path), tmp_path / "store", target_columns="y")  # an empty folder will do
    with pytest.raises(ValueError, match="exists already"):
        pack_csv(table(tmp_path), tmp_path / "store", target_columns="y")
    path = table(tmp_path, [], "empty.csv")
    with pytest.raises(ValueError, match="a header but no rows"):
        pack_csv(path, tmp_path / "none", target_columns="y")
    path = table(tmp_path, [("CC(", "1", "1", "1")], "bad.csv")
    with pytest.raises(ValueError, match="none of the 1 rows can be used; line 2"):
        pack_csv(path, tmp_path / "none", target_columns="y")
    assert json.loads((tmp_path / "store" / "pack.json").read_text())["num_skipped"] == 0
