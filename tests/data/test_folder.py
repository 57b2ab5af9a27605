import json

import networkx as nx
import pytest
import torch

import crawl
from crawl.data import from_folder
from crawl.data.features import Column, Columns, Unknown
from crawl.data.folder import read_folder, read_graph
from crawl.nn.encoders import UNKNOWN


def graph(num_nodes, kind=nx.Graph):
    made = nx.path_graph(num_nodes, create_using=kind)
    nx.set_node_attributes(made, {i: "CNO"[i % 3] for i in made}, "element")
    nx.set_edge_attributes(made, 1.5, "length")
    return made


@pytest.fixture
def folder(tmp_path):
    """Six paths, half of them in GraphML and half in JSON, of which the last is a single node."""
    lines = ["file,y,part"]
    for i in range(6):
        made = graph(6 - i)
        name = f"g{i}.{'graphml' if i % 2 else 'json'}"
        if i % 2:
            nx.write_graphml(made, tmp_path / name)
        else:
            (tmp_path / name).write_text(json.dumps(nx.node_link_data(made, edges="links" if i else "edges")))
        lines.append(f"{name},{i}.5,{['train', 'train', 'val', 'test'][i % 4]}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    return tmp_path


def test_dataset(folder):
    dataset = from_folder(folder, target_columns="y", split="part")
    assert dataset.name == folder.name
    assert dataset.graph_names == ("g0.json", "g1.graphml", "g2.json", "g3.graphml", "g4.json", "g5.graphml")
    assert dataset.store.node_ptr.diff().tolist() == [6, 5, 4, 3, 2, 1]
    assert dataset.store.edge_ptr.diff().tolist() == [10, 8, 6, 4, 2, 0]
    assert dataset.store.graph(3).edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert dataset.store.graph(3).x.tolist() == [[0], [1], [2]]
    assert (dataset.node_categories, dataset.edge_categories) == ((3,), ())
    assert dataset.store.edge_attr.tolist() == [[1.5]] * 30
    assert dataset.store.y.flatten().tolist() == [i + 0.5 for i in range(6)]
    assert dataset.split.test.tolist() == [3]
    model = crawl.CRaWl(crawl.OneHot(dataset.node_categories), 1, edge_dim=1, hidden_channels=8)
    assert model(dataset.store.batch([0, 5])).shape == (2, 1)


@pytest.mark.parametrize(
    "declared",
    [
        '<!ENTITY a "aaaaaaaaaa"> <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a SYSTEM "http://localhost/a.dtd"> %a;',
    ],
)
def test_graphml_with_entities_is_refused(tmp_path, declared):
    path = tmp_path / "a.graphml"
    nx.write_graphml(graph(3), path)
    text = path.read_text().replace("?>\n", f"?>\n<!DOCTYPE graphml [{declared}]>\n", 1)
    for encoding in ("utf-8", "utf-16"):
        path.write_text(text.replace("utf-8", encoding), encoding)
        with pytest.raises(
            ValueError, match=r"^'a\.graphml' is not a graph: it declares the entity 'a', which GraphML"
        ):
            read_graph(path)


def test_graphml_may_name_its_document_type(tmp_path):
    path = tmp_path / "a.graphml"
    nx.write_graphml(graph(3), path)
    named = '?>\n<!DOCTYPE graphml SYSTEM "http://graphml.graphdrawing.org/dtds/graphml.dtd">\n'
    path.write_text(path.read_text().replace("?>\n", named, 1))
    assert read_graph(path).number_of_edges() == 2


def test_bad_rows(folder):
    with (folder / "labels.csv").open("a") as file:
        file.write(
            "\nmissing.json,1.5,train\nlabels.csv,1.5,train\nbad.json,1,train\nbad.graphml,1,val\ng0.json,,test\n"
        )
    (folder / "bad.json").write_text('{"nodes": 1}')
    (folder / "bad.graphml").write_text("<graphml>")
    dataset = from_folder(folder, target_columns="y")
    assert len(dataset) == 6
    reasons = [
        "line 8: 'missing.json' cannot be read: No such file or directory",
        "line 9: 'labels.csv' is neither a .graphml nor a .json file",
        "line 10: 'bad.json' is not a graph",
        "line 11: 'bad.graphml' is not a graph",
        "line 12: y is missing",
    ]
    for line, reason in zip(dataset.skipped, reasons, strict=True):
        assert line.startswith(reason)
    with pytest.raises(ValueError, match=r"line 8: 'missing\.json'"):
        from_folder(folder, target_columns="y", bad_rows="refuse")


def test_directed_graphs(folder):
    (folder / "g0.json").write_text(json.dumps(nx.node_link_data(graph(6, nx.DiGraph), edges="edges")))
    assert "use undirected=True" in from_folder(folder, target_columns="y").skipped[0]
    assert from_folder(folder, target_columns="y", undirected=True).store.edge_ptr[1] == 10
    ring = nx.cycle_graph(3, create_using=nx.DiGraph)
    nx.set_node_attributes(ring, "C", "element")
    nx.set_edge_attributes(ring, 1.0, "length")
    (folder / "g0.json").write_text(json.dumps(nx.node_link_data(ring, edges="edges")))
    store = from_folder(folder, target_columns="y").store
    assert store.graph(0).edge_index.tolist() == [[0, 1, 2], [1, 2, 0]]


def test_loops_are_listed_once_and_parallel_edges_twice(folder):
    made = nx.MultiGraph([(0, 1), (0, 1), (1, 1)])
    nx.set_node_attributes(made, "C", "element")
    nx.set_edge_attributes(made, 1.0, "length")
    (folder / "g0.json").write_text(json.dumps(nx.node_link_data(made, edges="edges")))
    edges = from_folder(folder, target_columns="y").store.graph(0).edge_index
    assert torch.equal(edges, torch.tensor([[0, 1, 0, 1, 1], [1, 0, 1, 0, 1]]))


def with_attributes(num_nodes, of_nodes=None, of_edges=None, first_node=None):
    """A path with these attributes at all nodes and edges, and others at its first node."""
    made = graph(num_nodes)
    nx.set_node_attributes(made, of_nodes if of_nodes is not None else {i: {} for i in made}, "element")
    for _, _, attributes in made.edges(data=True):
        attributes |= of_edges or {}
    made.nodes[0].update(first_node or {})
    return made


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (nx.path_graph(5), "its node attributes are none, but those of most graphs element (word)"),
        (with_attributes(4, of_nodes=7), "its node attributes are element (number), but those of most graphs"),
        (with_attributes(4, "C", {"colour": 1}), "its edge attributes are colour (number), length (number), but"),
        (with_attributes(4, "C", {"length": [1.0, 2.0]}), "its edge attributes are length (2 numbers), but those of"),
        (with_attributes(4, "C", first_node={"element": 3}), "attribute 'element' must be there at every node"),
        (with_attributes(4, "C", first_node={"colour": 3}), "attribute 'colour' must be there at every node"),
        (with_attributes(4, "C", {"length": float("nan")}), "attribute 'length' of edges is nan, not a finite number"),
        (with_attributes(4, "C", {"length": 10**400}), "attribute 'length' of edges is 1000000000"),
        (with_attributes(4, "C", {"length": None}), "attribute 'length' of edges is None, not a finite number"),
    ],
)
def test_a_graph_with_other_attributes_than_most_is_skipped(folder, bad, reason):
    (folder / "g2.json").write_text(json.dumps(nx.node_link_data(bad, edges="edges")))
    dataset = from_folder(folder, target_columns="y")
    assert len(dataset) == 5
    assert dataset.skipped[0].startswith(f"line 4: {reason}")
    assert dataset.node_categories == (3,)
    with pytest.raises(ValueError, match=r"line 4: .* correct it, or skip bad rows"):
        from_folder(folder, target_columns="y", bad_rows="refuse")


def test_half_of_the_graphs_are_not_most(folder):
    for name in ("g0.json", "g2.json", "g4.json"):
        (folder / name).write_text(json.dumps(nx.node_link_data(nx.path_graph(3), edges="edges")))
    with pytest.raises(ValueError, match="Only 3 of 6 graphs have the node attributes none, and others are rarer"):
        from_folder(folder, target_columns="y")


@pytest.mark.parametrize("depth", [200, 100_000])
def test_nested_json_is_a_bad_row(folder, depth):
    (folder / "g0.json").write_text("[" * depth + "]" * depth)
    dataset = from_folder(folder, target_columns="y")
    assert dataset.skipped == ("line 2: 'g0.json' is not a graph: it is nested more than 100 deep",)


NODES = [{"id": 0, "element": "C"}, {"id": 1, "element": "N"}]
EDGE = {"source": 0, "target": 1, "length": 1.5}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "it is not an object with the lists 'nodes' and 'edges'"),
        ({}, "it has no list 'edges'; give an empty one to a graph without edges"),
        ({"nodes": NODES}, "it has no list 'edges'; give an empty one to a graph without edges"),
        ({"links": [EDGE]}, "it has no list 'nodes' of objects"),
        ({"nodes": 1, "links": []}, "it has no list 'nodes' of objects"),
        ({"nodes": [0, 1], "links": []}, "it has no list 'nodes' of objects"),
        ({"nodes": NODES, "links": [[0, 1]]}, "it has no list 'links' of objects"),
        (
            {"nodes": NODES, "links": [EDGE], "edges": [EDGE]},
            "it has both 'edges' and 'links', of which one would not be read; keep one list",
        ),
        ({"nodes": NODES, "edges": [{"source": 0}]}, "the edge {'source': 0} does not have both 'source' and 'target'"),
        ({"nodes": NODES, "edges": [EDGE | {"target": 9}]}, "it has an edge from 0 to 9, but no node 9"),
        ({"nodes": NODES, "edges": [EDGE | {"source": "0"}]}, "it has an edge from '0' to 1, but no node '0'"),
        ({"nodes": [*NODES, NODES[0]], "edges": [EDGE]}, "two nodes are called 0"),
        ({"nodes": [{"id": [0, 1]}, {"id": [0, 1]}], "edges": []}, "two nodes are called (0, 1)"),
        ({"nodes": [{"id": 1}, {}], "edges": []}, "two nodes are called 1"),  # the second is number 1, from 0
        ({"nodes": [{"id": {}}], "edges": []}, "a node is called {}; use numbers or words"),
        ({"nodes": NODES, "edges": [EDGE], "directed": "false"}, "its 'directed' is 'false', not true or false"),
    ],
)
def test_broken_json_is_a_bad_row_with_its_reason(folder, document, reason):
    (folder / "g2.json").write_text(json.dumps(document))
    dataset = from_folder(folder, target_columns="y")
    assert dataset.skipped == (f"line 4: 'g2.json' is not a graph: {reason}",)
    found = dict(read_folder(folder, dataset.columns, Unknown()))
    assert found["g2.json"] == f"'g2.json' is not a graph: {reason}"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('target="1"', 'target="9"', "it has an edge from '0' to '9', but no node '9'"),
        ('target="1"', "", "it has an edge from '0' to None, but no node None"),
        ('<node id="1"', '<node id="0"', "two nodes are called '0'"),
    ],
)
def test_broken_graphml_is_a_bad_row_with_its_reason(folder, old, new, reason):
    text = (folder / "g3.graphml").read_text()
    assert old in text
    (folder / "g3.graphml").write_text(text.replace(old, new, 1))
    assert from_folder(folder, target_columns="y").skipped == (f"line 5: 'g3.graphml' is not a graph: {reason}",)


def test_a_graph_without_nodes_is_a_bad_row(folder):
    (folder / "g2.json").write_text('{"nodes": [], "links": []}')
    nx.write_graphml(nx.Graph(), folder / "g3.graphml")
    dataset = from_folder(folder, target_columns="y")
    assert dataset.skipped == ("line 4: 'g2.json' has no nodes", "line 5: 'g3.graphml' has no nodes")


def test_nodes_may_be_called_by_lists_or_not_at_all(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(nx.node_link_data(nx.grid_graph((2, 3)), edges="links")))
    assert read_graph(path).number_of_edges() == 7
    path.write_text('{"nodes": [{}, {}], "links": [{"source": 0, "target": 1}]}')
    assert list(read_graph(path).edges()) == [(0, 1)]


def test_weights_of_edges_are_features(folder):
    for i in range(6):
        made = graph(6 - i)
        nx.set_edge_attributes(made, 0.5, "weight")
        name = folder / f"g{i}.{'graphml' if i % 2 else 'json'}"
        if i % 2:
            nx.write_graphml(made, name)
        else:
            name.write_text(json.dumps(nx.node_link_data(made, edges="edges")))
    assert from_folder(folder, target_columns="y").store.edge_attr.tolist() == [[1.5, 0.5]] * 30


def test_refuses(folder, tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        from_folder(folder / "nothing")
    with pytest.raises(
        ValueError, match=r"There is no table \S*missing\.csv: write a CSV file with a column 'file' of"
    ):
        from_folder(folder, "missing.csv")
    with pytest.raises(ValueError, match=r"no column 'filename'\. Did you mean 'file'"):
        from_folder(folder, file_column="filename")
    with pytest.raises(ValueError, match="say which columns to predict, of: y, part"):
        from_folder(folder)
    with pytest.raises(ValueError, match="A scaffold split needs molecules"):
        from_folder(folder, target_columns="y", split="scaffold")


def test_graphs_for_a_model(folder, tmp_path):
    columns = from_folder(folder, target_columns="y").columns
    assert columns == Columns((Column("element", ("C", "N", "O")),), (Column("length"),))
    unknown = Unknown()
    listed = dict(read_folder(folder, columns, unknown))
    assert list(listed) == [f"g{i}.{'graphml' if i % 2 else 'json'}" for i in range(6)]
    assert listed["g3.graphml"].x.tolist() == [[0], [1], [2]]
    assert listed["g5.graphml"].edge_attr.shape == (0, 1)
    assert not unknown
    (folder / "labels.csv").unlink()  # then all files of the folder
    other = nx.path_graph(2)
    nx.set_node_attributes(other, {0: "O", 1: "Xe"}, "element")
    nx.set_edge_attributes(other, 2, "length")
    (folder / "a.json").write_text(json.dumps(nx.node_link_data(other, edges="edges")))
    nx.write_graphml(nx.path_graph(2), folder / "b.graphml")
    (folder / "c.json").write_text("{}")
    nx.set_edge_attributes(other, "long", "length")
    (folder / "d.json").write_text(json.dumps(nx.node_link_data(other, edges="edges")))
    (folder / "notes.txt").write_text("no graph")
    found = dict(read_folder(folder, columns, unknown))
    assert list(found) == sorted([*listed, "a.json", "b.graphml", "c.json", "d.json"])
    assert found["a.json"].x.tolist() == [[2], [UNKNOWN]]
    assert found["a.json"].edge_attr.tolist() == [[2.0], [2.0]]
    assert found["d.json"].startswith("Attribute 'length' must be a number everywhere")
    assert str(unknown) == "'Xe' in element (1 node)"  # that of d.json does not count: it has no prediction
    assert found["b.graphml"].startswith("There are other features than in training: the node attributes are none and")
    assert "is not a graph" in found["c.json"]


def test_rows_of_a_table_that_cannot_be_read(folder):
    (folder / "labels.csv").write_text("file,y\ng0.json,1\ng1.graphml\n")
    columns = Columns((Column("element", ("C", "N", "O")),), (Column("length"),))
    found = dict(read_folder(folder, columns, Unknown()))
    assert found["g0.json"].num_nodes == 6
    assert found["g1.graphml"] == "it has 1 fields, but the header 2"
