import pytest
import torch
from torch_geometric.io import read_tu_data

from crawl.data import from_tu
from crawl.data.features import Column, Columns, Unknown
from crawl.data.tu import read_tu
from crawl.nn.encoders import UNKNOWN

# Two triangles with a tail and a single node; the nodes of the graphs are mixed, as the format allows.
FILES = {
    "A": "1, 3\n3, 1\n3, 5\n5, 3\n5, 1\n1, 5\n5, 7\n7, 5\n2, 4\n4, 2\n4, 6\n6, 4\n2, 6\n6, 2\n",
    "graph_indicator": "1\n2\n1\n2\n1\n2\n1\n3\n",
    "graph_labels": "1\n-1\n1\n",
}


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, text in (FILES | files).items():
        if text is not None:
            (folder / f"SET_{name}.txt").write_text(text)
    return folder


def test_graphs(tmp_path):
    dataset = from_tu(write(tmp_path))
    assert dataset.name == "SET"
    assert dataset.store.node_ptr.tolist() == [0, 4, 7, 8]
    assert dataset.store.edge_ptr.tolist() == [0, 8, 14, 14]
    assert dataset.store.graph(0).edge_index.tolist() == [[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]]
    assert dataset.store.graph(1).edge_index.tolist() == [[0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0]]
    assert dataset.store.y.tolist() == [1, 0, 1]
    assert (dataset.task.kind, dataset.task.metric, dataset.task.class_names) == ("binary", "accuracy", ("-1", "1"))
    assert (dataset.store.x, dataset.store.edge_attr) == (None, None)


def test_agrees_with_pyg(tmp_path):
    order = "1\n1\n1\n1\n2\n2\n3\n3\n"  # PyG needs the nodes in the order of their graphs
    edges = "1,2\n2,1\n2,3\n3,2\n3,4\n4,3\n5,6\n6,5\n7,8\n8,7\n"  # and an edge in the last graph
    labels = "0\n1\n2\n0\n1\n2\n2\n1\n"
    folder = write(tmp_path, A=edges, graph_indicator=order, node_labels=labels, graph_labels="0\n2\n1\n")
    data, slices, _ = read_tu_data(str(folder), "SET")
    store = from_tu(folder).store
    assert store.node_ptr.tolist() == slices["x"].tolist()
    assert store.edge_ptr.tolist() == slices["edge_index"].tolist()
    assert torch.equal(store.edge_index, data.edge_index)
    assert torch.equal(torch.nn.functional.one_hot(store.x[:, 0]), data.x.long())
    assert torch.equal(store.y, data.y)


def test_features_follow_their_nodes_and_edges(tmp_path):
    nodes = "\n".join(str(10 * (i + 1)) for i in range(8))
    edges = "\n".join(f"{i}.5, 0" for i in range(14))
    dataset = from_tu(write(tmp_path, node_labels=nodes, edge_attributes=edges))
    assert dataset.store.x.flatten().tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert dataset.node_categories == (8,)
    assert dataset.store.edge_attr.shape == (14, 2)
    assert dataset.edge_categories == ()
    assert dataset.num_edge_features == 2


def test_labels_beside_attributes(tmp_path):
    labels, attributes = "\n".join("01011010"), "\n".join(f"{i}.25" for i in range(8))
    dataset = from_tu(write(tmp_path, node_labels=labels, node_attributes=attributes))
    assert dataset.store.x[:2].tolist() == [[0.25, 1, 0], [2.25, 1, 0]]
    assert dataset.num_node_features == 3


def test_edges_listed_once_get_the_other_direction(tmp_path):
    folder = write(tmp_path, A="1, 3\n2, 4\n3, 5\n5, 3\n", edge_labels="7\n8\n9\n9\n")
    store = from_tu(folder).store
    assert store.graph(0).edge_index.tolist() == [[0, 1, 2, 1], [1, 2, 1, 0]]
    assert store.graph(0).edge_attr.flatten().tolist() == [0, 2, 2, 0]
    assert store.graph(1).edge_index.tolist() == [[0, 1], [1, 0]]


def test_regression_and_no_edges(tmp_path):
    dataset = from_tu(write(tmp_path, A="", graph_labels=None, graph_attributes="0.5, 1\n1.5, 2\n2.5, 3\n"))
    assert (dataset.task.kind, dataset.task.num_outputs) == ("regression", 2)
    assert dataset.store.y.tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]
    assert dataset.store.num_edges == 0


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"A": None}, "has none; give a folder"),
        ({"graph_indicator": None}, r"SET_graph_indicator\.txt cannot be read"),
        ({"graph_labels": None}, "there is nothing to predict"),
        ({"graph_labels": "1\n1\n1\n"}, r"SET_graph_labels\.txt: .*only one class"),
        ({"graph_labels": "1\nnan\n2\n"}, r"line 2: the label is missing \('nan'\)\."),
        ({"graph_labels": "1\n2\n"}, "names other graphs than 1 to 2"),
        ({"A": "1, 99\n"}, "names other nodes than 1 to 8"),
        ({"A": "1, 2\n"}, r"SET_A\.txt, line 1: the edge connects two graphs"),
        ({"A": "1, x\n"}, r"SET_A\.txt: could not convert"),
        ({"A": "1, 2, 3\n"}, "must have 2 numbers in each line, but has 3"),
        ({"node_labels": "1\n2\n"}, "must have 8 lines, but has 2"),
        ({"node_attributes": "1\n" * 7 + "nan\n"}, r"SET_node_attributes\.txt, line 8: NaN and infinite numbers"),
        ({"edge_attributes": "1e99\n" * 14}, r"SET_edge_attributes\.txt, line 1: NaN and infinite numbers"),
    ],
)
def test_refuses(tmp_path, files, message):
    with pytest.raises(ValueError, match=message):
        from_tu(write(tmp_path, **files))


def test_name(tmp_path):
    folder = write(tmp_path)
    (folder / "OTHER_A.txt").write_text("")
    with pytest.raises(ValueError, match="several: OTHER, SET; say which"):
        from_tu(folder)
    assert from_tu(folder, "SET", split="random").name == "SET"


def test_targets_keep_their_digits(tmp_path):
    text = "\n".join(str(10**9 + i) for i in range(3))
    y = from_tu(write(tmp_path, graph_labels=None, graph_attributes=text), fractions=(0.34, 0.33, 0.33)).store.y
    assert y.flatten().tolist() == [10**9 + i for i in range(3)]


@pytest.mark.parametrize("name", ["node_attributes", "graph_attributes"])
@pytest.mark.parametrize("wrong", ["nan", "inf", "1e300"])
def test_numbers_that_are_not_finite_are_refused(tmp_path, name, wrong):
    rows = 8 if name == "node_attributes" else 3
    files = {name: "\n".join([wrong, *(f"{i}.5" for i in range(rows - 1))])}
    with pytest.raises(
        ValueError, match=rf"SET_{name}\.txt, line 1: NaN and infinite numbers cannot be used|of graph 0 is \["
    ):
        from_tu(write(tmp_path, **({"graph_labels": None} if name == "graph_attributes" else {}), **files))


LABELS = "\n".join("37937937")


def test_columns(tmp_path):
    dataset = from_tu(write(tmp_path, node_labels=LABELS, edge_attributes="1, 2\n" * 14))
    assert dataset.columns == Columns(
        (Column("node_labels", (3, 7, 9)),),
        (Column("edge_attributes", None, 2),),
    )
    two = from_tu(write(tmp_path, node_labels=LABELS.replace("\n", ", 0\n") + ", 0", edge_attributes="1\n" * 14))
    assert two.columns.nodes == (Column("node_labels 1", (3, 7, 9)), Column("node_labels 2", (0,)))
    empty = write(tmp_path, A="", node_labels="", edge_labels="", edge_attributes="", graph_indicator="")
    assert from_tu(empty).columns == Columns()


def test_other_graphs_are_numbered_as_in_training(tmp_path):
    columns = from_tu(write(tmp_path / "train", node_labels=LABELS)).columns
    unknown = Unknown()
    folder = write(tmp_path / "new", node_labels="\n".join("99977785"), graph_labels=None)
    store = read_tu(folder, columns, unknown)
    assert (len(store), store.y) == (3, None)
    assert store.x.flatten().tolist() == [2, 2, 1, UNKNOWN, 2, 1, 1, UNKNOWN]
    assert str(unknown) == "5, 8 in node_labels (2 nodes)"
    attributes = "\n".join(f"{i}.25" for i in range(8))
    columns = from_tu(write(tmp_path / "train", node_attributes=attributes)).columns
    write(tmp_path / "new", node_attributes=attributes)
    assert read_tu(tmp_path / "new", columns, Unknown()).x[3].tolist() == [6.25, 0, 0, 0]


def test_empty_graphs_are_kept_where_labels_tell_of_them(tmp_path):
    folder = write(tmp_path, graph_labels="1\n-1\n1\n1\n")
    assert len(read_tu(folder, Columns(), Unknown())) == len(from_tu(folder)) == 4


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "node attributes are none and were 'node_labels'"),
        ({"node_labels": LABELS, "edge_labels": "1\n" * 14}, "edge attributes are 'edge_labels' and were none"),
        ({"node_labels": LABELS.replace("\n", ",0\n") + ",0"}, "are 'node_labels 1', 'node_labels 2' and were"),
        ({"node_labels": LABELS, "graph_indicator": "1\n" * 7 + "99999999999999\n"}, "names other graphs than 1 to 8"),
    ],
)
def test_other_features_are_refused(tmp_path, files, message):
    columns = from_tu(write(tmp_path / "train", node_labels=LABELS)).columns
    with pytest.raises(ValueError, match=message):
        read_tu(write(tmp_path / "new", graph_labels=None, **files), columns, Unknown())


def test_numbers_of_another_width_are_refused(tmp_path):
    columns = from_tu(write(tmp_path / "train", node_attributes="1, 2\n" * 8)).columns
    with pytest.raises(ValueError, match="'node_attributes' has 1 numbers, but had 2 in training"):
        read_tu(write(tmp_path / "new", node_attributes="1\n" * 8), columns, Unknown())
