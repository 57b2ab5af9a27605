"""A graph file with labels beside it: what is read equals the same graph in memory; mistakes are refused by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from crawl import Graph, build_graph_file
from crawl.data import Fingerprint, OneGraph, from_nodes
from crawl.data.graph_folder import GRAPH, has_graph_file, read_graph_folder, rows_of

LABELS = """id,label,split
0,yes,train
7,no,train
3,,
2,yes,val
5,no,test
1,yes,test
"""


def edges(num_nodes: int = 9) -> torch.Tensor:
    """A ring with a chord; the last node is isolated."""
    ring = torch.arange(num_nodes - 1)
    return torch.cat([torch.stack([ring, ring.roll(-1)]), torch.tensor([[0], [4]])], dim=1)


def write(folder: Path, labels: str = LABELS, features: torch.Tensor | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    features = torch.arange(27.0).view(9, 3) if features is None else features
    build_graph_file(edges(), folder / GRAPH, undirected=True, features=features)
    (folder / "labels.csv").write_text(labels)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "big")


def read(folder: Path, **settings):
    return from_nodes(folder, batches="closed", **settings)


def test_the_graph_the_features_and_the_labels(folder):
    dataset = read(folder)
    store, same = dataset.store, Graph.from_edge_index(edges(), 9, undirected=True)
    assert torch.equal(store.graph.col, same.col)
    assert store.x.tolist() == torch.arange(27.0).view(9, 3).tolist()
    assert (dataset.name, dataset.task.level, dataset.task.class_names) == ("big", "node", ("no", "yes"))
    assert store.owners.tolist() == [0, 7, 2, 5, 1]  # node 3 has no label
    assert store.y.tolist() == [1, 0, 1, 0, 1]
    assert [part.tolist() for part in vars(dataset.split).values()] == [[0, 1], [2], [3, 4]]
    assert (dataset.batches, dataset.num_node_features, store.edge_index) == ("closed", 3, None)
    assert Fingerprint.of(dataset) == Fingerprint.of(read(folder))
    in_memory = OneGraph(same, store.owners, store.x.clone(), y=store.y)
    object.__setattr__(dataset, "store", in_memory)
    assert Fingerprint.of(dataset) == Fingerprint.of(read(folder))


def test_the_map_is_not_copied(folder):
    """Memory for the graph and its features is that of the file, which the system takes back when it needs it."""
    store = read(folder).store
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(GRAPH)]
    ranges = [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in maps]
    for tensor in (store.graph.rowptr, store.graph.col, store.graph.edge_id, store.x):
        assert any(low <= tensor.data_ptr() < high for low, high in ranges)


def test_categories_and_no_features(tmp_path):
    codes = torch.arange(9).remainder(4).unsqueeze(1)
    dataset = read(write(tmp_path / "codes", features=codes))
    assert (dataset.node_categories, dataset.num_node_features) == ((4,), 0)
    bare = write(tmp_path / "bare")
    build_graph_file(edges(), bare / GRAPH, undirected=True, num_nodes=9)
    assert read(bare).store.x is None


def test_other_ways_to_split(folder, tmp_path):
    rows = tmp_path / "rows.json"
    rows.write_text('{"train": [0, 1], "val": [3], "test": [4]}')
    assert read(folder, split=rows).split.test.tolist() == [3]
    rows.write_text('{"train": [0, 1], "val": [2], "test": [4]}')
    with pytest.raises(ValueError, match=r"rows\.json names row 2 of labels\.csv, which has no label: leave it out"):
        read(folder, split=rows)
    rows.write_text('{"train": [0, 1], "val": [3], "test": [1, 4]}')
    with pytest.raises(ValueError, match=r"rows\.json: Id 1 occurs more than once in the split"):
        read(folder, split=rows)
    assert len(read(folder, split="random", fractions=(0.6, 0.2, 0.2)).split.train) == 3


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            LABELS + "9,yes,test\n",
            r"labels\.csv, line 8: its id is '9', which is not a node of graph\.crawl: these are",
        ),
        (LABELS + "-1,yes,test\n", r"labels\.csv, line 8: its id is '-1', which is not a node"),
        (LABELS + "ann,yes,test\n", r"labels\.csv, line 8: its id is 'ann', which is not a node"),
        (LABELS + "²,yes,test\n", r"labels\.csv, line 8: its id is '²', which is not a node"),
        (
            LABELS + "7,no,test\n",
            r"labels\.csv, line 8: node 7 is in line 3 already: a node has one label and one part",
        ),
        (LABELS + "8\n", r"labels\.csv, line 8: it has 1 fields, but the header 3; correct it"),
        (
            LABELS.replace("no,train", "yes,train"),
            r"labels\.csv, line \d: No target of class no is in the training split: choose another",
        ),
        (LABELS.replace("no,test", "no,check"), r"says 'check' in line 6 of .*labels\.csv; it may say train, val or"),
        (LABELS.replace("label", "kind"), r"labels\.csv has no column 'label'"),
        (LABELS.replace("id,", "node,"), r"labels\.csv has no column 'id'"),
        (
            LABELS.replace("split", "split,colour").replace("train", "train,red"),
            r"labels\.csv: the column 'colour' would not be used, since features are in graph\.crawl: remove it",
        ),
        ("id,label,split\n", r"labels\.csv has a header but no rows"),
    ],
)
def test_mistakes_are_refused_by_line(folder, labels, message):
    (folder / "labels.csv").write_text(labels)
    with pytest.raises(ValueError, match=message) as caught:
        read(folder)
    assert "\n" not in str(caught.value)


def test_a_damaged_graph_file_is_refused(folder):
    whole = (folder / GRAPH).read_bytes()
    (folder / GRAPH).write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=r"graph\.crawl is not a graph file, or was damaged \(it has .* bytes, not"):
        read(folder)
    (folder / GRAPH).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"was damaged \(the checksum of \w+ differs\): build it again"):
        read(folder)


def test_settings_that_a_graph_file_does_not_have(folder):
    with pytest.raises(ValueError, match=r"choose batches='closed' \(--data\.batches closed\)\.$"):
        from_nodes(folder)
    with pytest.raises(ValueError, match="which knows where its edges lead: leave out directed"):
        read(folder, directed=True)
    (folder / "nodes.csv").write_text("id,label\n")
    with pytest.raises(ValueError, match=r"has graph\.crawl and nodes\.csv: leave one of them elsewhere"):
        has_graph_file(folder)
    (folder / "nodes.csv").unlink()
    (folder / "labels.csv").unlink()
    with pytest.raises(ValueError, match=r"There is no \S+labels\.csv: beside graph\.crawl it has the columns"):
        read(folder)


def test_nodes_to_be_asked_about(folder, tmp_path):
    store = read_graph_folder(folder)
    assert store.owners.tolist() == list(range(9))
    columns, rows = rows_of(store)
    assert (columns, [row["id"] for row in rows]) == (("id",), list("012345678"))
    table = tmp_path / "some.csv"
    table.write_text("name,id\nb,4\na,1\nb,4\n")
    store = read_graph_folder(folder, table)
    assert store.owners.tolist() == [4, 1, 4]
    columns, rows = rows_of(store, table)
    assert (columns, next(rows)) == (("name", "id"), {"name": "b", "id": "4"})
    table.write_text("id\n9\n")
    with pytest.raises(ValueError, match=r"some\.csv, line 2: its id is '9', which is not a node"):
        read_graph_folder(folder, table)


def test_many_labels_in_any_order(tmp_path):
    """Rows are read one by one; the first line that repeats a node is named."""
    nodes = np.random.default_rng(0).permutation(9)
    text = "id,label\n" + "".join(f"{node},{node / 7}\n" for node in nodes)
    dataset = read(write(tmp_path / "numbers", text))
    assert dataset.task.kind == "regression"
    assert torch.allclose(dataset.store.y[:, 0], dataset.store.owners / 7)
    write(tmp_path / "numbers", text + f"{nodes[4]},1\n{nodes[2]},1\n")
    with pytest.raises(ValueError, match=f"line 11: node {nodes[4]} is in line 6 already"):
        read(tmp_path / "numbers")
