"""A graph in nodes.csv and edges.csv: what is read, and that mistakes are refused by line."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
import torch

from crawl.data import Fingerprint, from_nodes
from crawl.data.features import Unknown
from crawl.data.node_folder import read_nodes

NODES = """id,colour,size,label,split
ann,red,0.5,yes,train
bob,blue,1.5,no,train
eve,red,2.5,,
tom,blue,0.25,yes,val
"x y",red,1,no,test
sue,blue,3,yes,test
"""
EDGES = """source,target,kind
ann,bob,1
bob,eve,2
eve,tom,1
tom,tom,2
x y,ann,1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "friends")


def write(folder: Path, nodes: str = NODES, edges: str = EDGES) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return folder


def test_a_graph_with_labels_features_and_split(folder):
    dataset = from_nodes(folder)
    store = dataset.store
    assert (dataset.name, dataset.task.level, dataset.task.class_names) == ("friends", "node", ("no", "yes"))
    assert dataset.graph_names == ("ann", "bob", "tom", "x y", "sue")  # eve has no label
    assert store.owners.tolist() == [0, 1, 3, 4, 5]
    assert store.y.tolist() == [1, 0, 1, 0, 1]
    assert [part.tolist() for part in vars(dataset.split).values()] == [[0, 1], [2], [3, 4]]
    # Numbers come first, then categories, one-hot beside them: blue, red.
    assert store.x[:2].tolist() == [[0.5, 0, 1], [1.5, 1, 0]]
    assert dataset.edge_categories == (2,)
    # Each edge leads both ways, and a self-loop is its own reverse.
    assert store.edge_index.tolist() == [[0, 1, 2, 3, 4, 1, 2, 3, 0], [1, 2, 3, 3, 0, 0, 1, 2, 4]]
    assert store.edge_attr.flatten().tolist() == [0, 1, 0, 1, 0, 0, 1, 0, 0]
    assert store.graph.degree[5] == 0
    assert Fingerprint.of(dataset) == Fingerprint.of(from_nodes(str(folder)))


def test_other_ways_to_split(folder, tmp_path):
    rows = tmp_path / "rows.json"
    rows.write_text('{"train": [0, 1], "val": [3], "test": [4]}')
    assert from_nodes(folder, split=rows).split.test.tolist() == [3]
    rows.write_text('{"train": [0, 1], "val": [2], "test": [4]}')
    with pytest.raises(ValueError, match=r"rows\.json names row 2 of nodes\.csv, which has no label: leave it out"):
        from_nodes(folder, split=rows)
    drawn = from_nodes(folder, split="random", fractions=(0.6, 0.2, 0.2))
    assert len(drawn.split.train) == 3
    assert "split" not in [column.name for column in drawn.columns.nodes]
    with pytest.raises(ValueError, match="cannot change the split in the column 'split'"):
        from_nodes(folder, fractions=(0.6, 0.2, 0.2))
    with pytest.raises(ValueError, match="which is neither a way to split, a column nor a file"):
        from_nodes(folder, split="colours")


def test_a_part_for_a_node_without_a_label_is_told(folder):
    write(folder, NODES.replace("2.5,,", "2.5,,test"))
    assert from_nodes(folder).skipped == ("line 4: its split is test, but its label is missing",)


def test_directed_edges_are_walked_one_way(folder):
    ring = "source,target\nann,bob\nbob,ann\nbob,eve\neve,ann\n"
    write(folder, edges=ring)
    assert from_nodes(folder, directed=True).store.num_edges == 4
    with pytest.raises(
        ValueError, match=r"edges\.csv, line 3: this edge is in line 2 already; list it once, or say dir"
    ):
        from_nodes(folder)
    write(folder, edges="source,target\nann,bob\n")
    with pytest.raises(ValueError, match=r"node 'bob' can be entered but not left, .*, or leave out directed\.$"):
        from_nodes(folder, directed=True)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (
            NODES,
            EDGES.replace("eve,tom", "eve,tim"),
            r"edges\.csv, line 4: its target is 'tim', which is not an id in nod",
        ),
        (NODES, EDGES + "ann,bob,1\n", r"edges\.csv, line 7: this edge is in line 2 already; list it once"),
        (NODES, EDGES + "ann\n", r"edges\.csv, line 7: it has 1 fields, but the header 3"),
        (NODES.replace("bob,b", "ann,b"), EDGES, r"nodes\.csv, line 3: the id 'ann' is in line 2 already\.$"),
        (NODES.replace("bob,b", ",b"), EDGES, r"nodes\.csv, line 3: its id is empty; correct it\.$"),
        (NODES.replace("red,2.5", ",2.5"), EDGES, r"nodes\.csv, line 4: colour is empty; every node needs a value\.$"),
        (
            NODES.replace("no,test", "no,check"),
            EDGES,
            r"says 'check' in line 6 of .*nodes\.csv; it may say train, val or",
        ),
        (
            NODES.replace("no,train", "yes,train"),
            EDGES,
            r"nodes\.csv, line 6: No target of class no is in the training split: choose another",
        ),
        (NODES.replace("label", "kind"), EDGES, r"nodes\.csv has no column 'label'"),
        (NODES.replace("id,", "name,"), EDGES, r"nodes\.csv has no column 'id'"),
        (NODES, EDGES.replace("source", "from"), r"edges\.csv has no column 'source'"),
        (NODES.splitlines()[0], EDGES, r"nodes\.csv has a header but no rows"),
    ],
)
def test_mistakes_are_refused_by_line(folder, nodes, edges, message):
    write(folder, nodes, edges)
    with pytest.raises(ValueError, match=message) as caught:
        from_nodes(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("owner", ["nodes", "edges"])
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        *((cell, "not a finite number up to 3.4e+38: correct it") for cell in ("nan", "-inf", "1e39", "9" * 39)),
        *((cell, "which may be a number or a word: write the digits 0 to 9 alone") for cell in ("1_000", "１２")),
    ],
)
def test_features_that_are_no_numbers_are_refused_by_line(folder, owner, cell, message):
    if owner == "nodes":
        write(folder, nodes=NODES.replace("bob,blue,1.5", f"bob,blue,{cell}"))
    else:
        write(folder, edges=EDGES.replace("bob,eve,2", f"bob,eve,{cell}").replace("eve,tom,1", "eve,tom,0.5"))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        from_nodes(folder)
    column = {"nodes": "size", "edges": "kind"}[owner]
    assert str(caught.value) == f"{folder / owner}.csv, line 3: {column} is '{cell}', {message}."


def test_a_feature_of_another_kind_than_in_training_is_refused_by_line(folder):
    columns = from_nodes(folder).columns
    write(folder, nodes=NODES.replace("red,2.5", "red,many"))
    with pytest.raises(
        ValueError, match=r"nodes\.csv, line 4: size is 'many', not a number as in training: correct it"
    ):
        read_nodes(folder, columns, Unknown(), others=("label", "split"))
    write(folder, nodes=NODES.replace("red,2.5", "red,1_0"))
    with pytest.raises(ValueError, match="line 4: size is '1_0', not a number as in training"):
        read_nodes(folder, columns, Unknown(), others=("label", "split"))
    write(folder, edges=EDGES.replace("tom,tom,2", "tom,tom,x"))
    with pytest.raises(
        ValueError, match=r"edges\.csv, line 5: kind is 'x', not a whole number as in training: correct"
    ):
        read_nodes(folder, columns, Unknown(), others=("label", "split"))


def test_many_whole_numbers_are_numbers_and_words_may_have_lines_below(folder):
    rows = [f"n{i},{i % 2},{i},a_{i % 3},{('train', 'val', 'test')[i // 2 % 3]}" for i in range(120)]
    write(folder, "\n".join(["id,label,size,word,split", *rows]) + "\n", "source,target\nn0,n1\n")
    size, word = from_nodes(folder).columns.nodes
    assert (size.values, word.values) == (None, ("a_0", "a_1", "a_2"))


def test_files_that_are_missing_are_named(folder):
    (folder / "edges.csv").unlink()
    with pytest.raises(ValueError, match=r"There is no \S+friends/edges\.csv: a graph is a folder with nodes\.csv and"):
        from_nodes(folder)
    with pytest.raises(ValueError, match=r"is not a folder: give one with nodes\.csv and edges\.csv"):
        from_nodes(folder / "nodes.csv")


def test_another_folder_is_read_as_in_training(folder, tmp_path):
    columns = from_nodes(folder).columns
    other = write(
        tmp_path / "other", "id,size,colour\n1,2.0,green\n2,1,blue\n", "source,target,kind\n2,1,1\n"
    )  # without labels, columns in another order
    unknown = Unknown()
    found, store = read_nodes(other, columns, unknown)
    assert store.x.tolist() == [[2, 0, 0], [1, 1, 0]]
    assert store.owners.tolist() == [0, 1]
    assert str(unknown) == "'green' in colour (1 node)"
    assert [row.cells["id"] for row in found.rows] == ["1", "2"]
    write(other, "id,size\n1,2.0\n2,1\n", "source,target,kind\n2,1,1\n")
    with pytest.raises(ValueError, match="the node attributes are 'size' and were 'colour', 'size'"):
        read_nodes(other, columns, Unknown())


def test_numbers_as_targets_and_no_features(folder):
    nodes = "id,label\n" + "".join(f"{i},{i / 3}\n" for i in range(10))
    write(folder, nodes, "source,target\n" + "".join(f"{i},{i + 1}\n" for i in range(8)))
    dataset = from_nodes(folder, batches="closed")
    assert (dataset.task.kind, dataset.store.x, dataset.batches) == ("regression", None, "closed")
    assert torch.allclose(dataset.store.y[:, 0], torch.arange(10) / 3)
    write(folder, nodes.replace("\n3,1.0", "\n3,red"), "source,target\n0,1\n")
    with pytest.raises(ValueError, match=r"nodes\.csv, line 5: label is 'red', not a number; correct it\.$"):
        from_nodes(folder)


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv"])
def test_two_files_of_one_table_are_refused(folder, name):
    compressed = gzip.compress((folder / name).read_bytes())
    (folder / f"{name}.gz").write_bytes(compressed)
    with pytest.raises(ValueError, match=f"^{folder} has {name} and {name}.gz: leave one of them elsewhere"):
        from_nodes(folder)
    (folder / name).unlink()
    assert len(from_nodes(folder)) == 5
