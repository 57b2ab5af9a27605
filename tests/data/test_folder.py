import json

import networkx as nx
import pytest
import torch

import crawl
from crawl.data import from_folder
from crawl.data.folder import read_graph


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
        with pytest.raises(ValueError, match=r"^'a\.graphml' is no graph: it declares the entity 'a', which GraphML"):
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
        "line 10: 'bad.json' is no graph",
        "line 11: 'bad.graphml' is no graph",
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


def test_attributes_must_be_everywhere(folder):
    nx.write_graphml(nx.path_graph(5), folder / "g1.graphml")
    with pytest.raises(ValueError, match=r"A node of g1\.graphml has no attribute 'element'"):
        from_folder(folder, target_columns="y")


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
