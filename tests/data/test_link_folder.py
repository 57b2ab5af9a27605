"""Links in edges.csv, with or without nodes.csv: what is read, and that mistakes are refused by line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

from crawl.data import Fingerprint, from_link_folder
from crawl.data.features import Unknown
from crawl.data.link_folder import links_of_tables, read_links, read_pairs
from crawl.data.pairs import pair_numbers

NAMES = [f"n{i}" for i in range(9)]
RING = [(i, (i + 1) % 9) for i in range(9)] + [(0, 2), (3, 5), (6, 8)]
PARTS = ["train"] * 8 + ["val", "test", "test", "train"]
EDGES = "source,target,kind,split\n" + "".join(
    f"n{u},n{v},{'ab'[u % 2]},{part}\n" for (u, v), part in zip(RING, PARTS, strict=True)
)
NODES = "id,colour,size\n" + "".join(f"{name},{'red' if i % 2 else 'blue'},{i / 2}\n" for i, name in enumerate(NAMES))


def write(folder: Path, edges: str = EDGES, nodes: str | None = NODES) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "edges.csv").write_text(edges)
    (folder / "nodes.csv").unlink(missing_ok=True)
    if nodes is not None:
        (folder / "nodes.csv").write_text(nodes)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "friends")


def linked(dataset, part: str) -> set[tuple[int, int]]:
    """The pairs of a part that are linked."""
    ids = getattr(dataset.split, part)
    return {tuple(pair) for pair in dataset.store.owners[ids][dataset.store.y[ids] == 1].tolist()}


def test_the_column_split_says_which_links_are_seen(folder):
    dataset = from_link_folder(folder)
    store, train = dataset.store, [pair for pair, part in zip(RING, PARTS, strict=True) if part == "train"]
    assert (dataset.name, dataset.task.level, dataset.task.metric) == ("friends", "pair", "roc_auc")
    assert linked(dataset, "val") == {(0, 8)}
    assert linked(dataset, "test") == {(0, 2), (3, 5)}
    seen = {tuple(sorted(pair)) for pair in store.edge_index.t().tolist()}
    assert seen == {tuple(sorted(pair)) for pair in train}
    # Features stay with their links, and both ways: kind a leaves even nodes.
    column = {tuple(pair): i for i, pair in enumerate(store.edge_index.t().tolist())}
    for u, v in train:
        assert [int(store.edge_attr[column[way]]) for way in ((u, v), (v, u))] == [u % 2, u % 2]
    assert dataset.edge_categories == (2,)
    assert store.x[1].tolist() == [0.5, 0, 1]
    assert dataset.graph_names[dataset.split.val[0]] == "n0:n8"
    assert Fingerprint.of(dataset) == Fingerprint.of(from_link_folder(str(folder)))


def test_pairs_without_a_link_are_linked_in_no_part(folder):
    dataset = from_link_folder(folder, num_negatives=2)
    others = dataset.store.owners[dataset.store.y == 0]
    assert len(others) == 2 * int(dataset.store.y.sum())
    assert not torch.isin(pair_numbers(others), pair_numbers(torch.tensor(RING))).any()


def test_without_nodes_the_nodes_are_the_ends_of_edges(folder):
    edges = "source,target\nx,y\ny,z\nz,x\nz,w\nw,v\nv,u\nu,x\n"
    write(folder, edges, None)
    (folder / "edges.csv.gz").write_bytes(gzip.compress((folder / "edges.csv").read_bytes()))
    (folder / "edges.csv").unlink()
    dataset = from_link_folder(folder, fractions=(0.6, 0.2, 0.2), batches="closed")
    assert (dataset.store.num_nodes, dataset.store.x, dataset.batches) == (6, None, "closed")
    assert {end for name in dataset.graph_names for end in name.split(":")} <= set("uvwxyz")
    again = from_link_folder(folder, fractions=(0.6, 0.2, 0.2), seed=1)
    assert linked(again, "test") != linked(dataset, "test")


def test_nodes_without_links_are_nodes_all_the_same(folder):
    write(folder, nodes=NODES + "alone,red,1\n")
    assert from_link_folder(folder).store.num_nodes == 10


def test_the_split_of_nodes_is_not_a_feature(folder):
    """The same folder may be for a task on nodes, too."""
    plain = from_link_folder(folder)
    rows = NODES.splitlines()
    write(folder, nodes="\n".join([f"{rows[0]},split", *(f"{row},train" for row in rows[1:])]))
    found = from_link_folder(folder)
    assert torch.equal(found.store.x, plain.store.x)
    assert found.columns == plain.columns
    _, graph = read_links(folder, plain.columns, Unknown())
    assert torch.equal(graph.x, plain.store.x)


def test_self_loops_are_no_links_and_told(folder):
    write(folder, EDGES + "n1,n1,a,train\n")
    assert from_link_folder(folder).skipped == ("line 14 of edges.csv: an edge from a node to itself is not a link",)


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        (
            EDGES + "n1,n0,a,test\n",
            NODES,
            r"edges\.csv, line 14: this edge is in line 2 already; a link has no direction, so list it once\.$",
        ),
        (EDGES + "n0,n1,a,test\n", NODES, r"edges\.csv, line 14: this edge is in line 2 already"),
        (EDGES + "n0,zoe,a,test\n", NODES, r"edges\.csv, line 14: its target is 'zoe', which is not an id in nodes"),
        (EDGES + "n0,,a,test\n", None, r"edges\.csv, line 14: its target is empty; correct it\.$"),
        (EDGES + "n0,n4\n", None, r"edges\.csv, line 14: it has 2 fields, but the header 4; correct it\.$"),
        (EDGES + "n0,n4,,test\n", NODES, r"edges\.csv, line 14: kind is empty; every edge needs a value\.$"),
        (EDGES + "n0,n4,a,\n", NODES, r"The split column says '' in line 14 of .*edges\.csv; it may say train, val or"),
        (EDGES, NODES + "n3,red,1\n", r"nodes\.csv, line 11: the id 'n3' is in line 5 already\.$"),
        (EDGES.replace("test", "train"), NODES, r"The split column puts no row into test"),
        (EDGES.replace("source", "from"), NODES, r"edges\.csv has no column 'source'"),
        ("source,target\n", None, r"edges\.csv has a header but no rows\.$"),
        ("", None, r"edges\.csv is empty; its first line must name the columns\.$"),
        ("source,target\na,b\n", None, r"edges\.csv has 1 link, too few to be split: 4 are needed\.$"),
        ("source,target,split\na,b,train\nb,c,val\nc,d,test\n", None, r"1 links are too few for training"),
        (
            "source,target,split\na,b,train\nb,c,train\na,c,val\nc,d,test\na,d,train\nb,d,train\n",
            None,
            r"1 pairs without a link are needed, but the graph of 4 nodes has 0",
        ),
    ],
)
def test_mistakes_are_refused_by_line(folder, edges, nodes, message):
    write(folder, edges, nodes)
    with pytest.raises(ValueError, match=message) as caught:
        from_link_folder(folder)
    assert "\n" not in str(caught.value)


def test_wrong_choices_are_refused(folder, tmp_path):
    for settings, message in (
        ({"split": "parts"}, r"split is 'parts', which is neither random nor a column of .*edges\.csv"),
        ({"split": "source"}, r"Column 'source' of .*edges\.csv cannot be the split, too"),
        ({"fractions": (0.6, 0.2, 0.2)}, "cannot change the split in the column 'split': leave it out"),
        ({"metric": "mae"}, "mae"),
        ({"num_negatives": 0}, "num_negatives"),
        ({"supervised_share": 1}, "supervised_share"),
    ):
        with pytest.raises(ValueError, match=message):
            from_link_folder(folder, **settings)
    with pytest.raises(ValueError, match=r"is not a folder: give one with edges\.csv, and perhaps nodes\.csv\.$"):
        from_link_folder(tmp_path / "nowhere")
    (folder / "edges.csv").unlink()
    with pytest.raises(ValueError, match=r"There is no \S+edges\.csv"):
        from_link_folder(folder)


def test_another_folder_is_read_as_in_training(folder, tmp_path):
    columns = from_link_folder(folder).columns
    other = write(tmp_path / "other", "source,target,kind\nq,r,b\n", "id,colour,size\nq,red,1\nr,green,2\n")
    unknown = Unknown()
    found, store = read_links(other, columns, unknown)
    assert (store.owners.tolist(), store.x[0].tolist(), store.edge_attr.tolist()) == ([0, 1], [1, 0, 1], [[1], [1]])
    assert str(unknown) == "'green' in colour (1 node)"
    write(other, "source,target\nq,r\n", "id,colour,size\nq,red,1\nr,green,2\n")
    with pytest.raises(ValueError, match="the edge attributes are none and were 'kind'"):
        read_links(other, columns, Unknown())

    pairs = tmp_path / "pairs.csv"
    pairs.write_text("note,source,target\n1,r,q\n2,q,zoe\n3,q,q\n4,,q\n5,q\n6,q,r\n")
    asked = read_pairs(pairs, links_of_tables(found))
    assert asked.owners.tolist() == [[1, 0], [0, 1]]
    assert asked.reasons == {
        1: "there is no node 'zoe'",
        2: "a link is between two different nodes",
        3: "an id is empty",
        4: "it has 2 fields, but the header 3",
    }
    pairs.write_text("source\nr\n")
    with pytest.raises(ValueError, match=r"pairs\.csv has no column 'target'"):
        read_pairs(pairs, links_of_tables(found))


def test_features_that_are_no_numbers_are_refused_by_line(folder):
    columns = from_link_folder(folder).columns
    assert [column.name for column in columns.nodes if column.values is None] == ["size"]
    write(folder, nodes=NODES.replace(NODES.splitlines()[2], "n1,red,nan"))
    for read in (from_link_folder, lambda path: read_links(path, columns, Unknown())):
        with pytest.raises(ValueError, match=r"nodes\.csv, line 3: size is 'nan', not a finite number .*: correct it"):
            read(folder)
