"""Import, checks and loading, with tiny benchmarks in place of the published ones."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from pathlib import Path

import pytest
import torch
from tiny_files import EDGES

from crawl.data.benchmarks import BENCHMARKS, data_root, import_benchmark, is_ready, load_benchmark
from crawl.data.benchmarks.packed import Packed
from crawl.data.benchmarks.record import Form
from crawl.data.store import GraphStore
from crawl.data.symmetry import symmetric


def test_the_root_is_given_or_set_or_in_the_home(monkeypatch, tmp_path):
    monkeypatch.delenv("CRAWL_DATA", raising=False)
    assert data_root() == Path.home() / ".cache" / "crawl"
    monkeypatch.setenv("CRAWL_DATA", str(tmp_path))
    assert data_root() == tmp_path
    assert data_root(tmp_path / "other") == tmp_path / "other"


def test_every_benchmark_has_a_record():
    assert set(BENCHMARKS) == {
        *("zinc", "cifar10", "mnist", "csl", "csl_lap", "molpcba", "pascalvoc_sp", "peptides_func", "peptides_struct"),
        *("collab", "imdb_multi", "reddit_binary"),
        *("minesweeper", "tolokers", "cora"),
        *(f"counting_{target}" for target in ("triangle", "tailed_triangle", "star", "cycle4", "all")),
    }
    assert all(name == benchmark.name for name, benchmark in BENCHMARKS.items())


def test_molecules_as_published(zinc_folder, tmp_path):
    root = tmp_path / "root"
    assert not is_ready("zinc", root)
    path = import_benchmark("ZINC", tmp_path / "files", root)
    assert path == root / "zinc.npz"
    assert is_ready("zinc", root)
    dataset = load_benchmark("zinc", root)
    assert (dataset.name, dataset.task.metric) == ("ZINC", "mae")
    assert dataset.split.to_json() == json.dumps({"train": [0, 1], "val": [2], "test": [3]})
    assert dataset.store.y.flatten().tolist() == [1, 3, 2, 2]
    assert dataset.store.graph(1).x.flatten().tolist() == [0, 1, 2]
    assert (dataset.node_categories, dataset.edge_categories) == ((21,), (4,))
    assert dataset.store.graph(0).edge_index.tolist() == EDGES.tolist()
    assert import_benchmark("zinc", zinc_folder / "val.pickle", root) == path  # one of the files
    (zinc_folder / "val.pickle").write_bytes(b"abc")
    with pytest.raises(ValueError, match=r"^\S+molecules/val\.pickle is truncated, damaged or another file [^\n]*$"):
        import_benchmark("zinc", zinc_folder, root)


def test_superpixels_as_published(tmp_path, shrink):
    shrink("mnist", (10, 10, 10), 3, 4)
    graph = {
        "x": torch.rand(3, 1),
        "pos": torch.rand(3, 2),
        "edge_index": torch.tensor([[0, 1, 2], [1, 2, 1]]),  # 1 → 0 is missing
        "edge_attr": torch.tensor([0.1, 0.2, 0.3]),
    }
    part = [graph | {"y": torch.tensor([i])} for i in range(10)]
    torch.save([part, part, part], tmp_path / "MNIST_v2.pt")
    import_benchmark("mnist", tmp_path, tmp_path / "root")
    dataset = load_benchmark("mnist", tmp_path / "root")
    assert dataset.name == "MNIST"
    assert dataset.store.graph(4).edge_index.tolist() == [[0, 1, 2, 1], [1, 2, 1, 0]]
    assert torch.allclose(dataset.store.graph(4).edge_attr.flatten(), torch.tensor([0.1, 0.2, 0.3, 0.1]))
    assert dataset.num_node_features == 1
    with_places = load_benchmark("mnist", tmp_path / "root", has_positions=True)
    assert torch.equal(with_places.store.graph(0).x[:, 1:], graph["pos"])


@pytest.mark.parametrize("name", ["peptides_struct", "pascalvoc_sp"])
def test_long_range_graphs_as_published(tmp_path, shrink, name):
    shrink(name, (21, 1, 1), 3, 4)
    is_image = name == "pascalvoc_sp"
    edges = torch.from_numpy(EDGES)
    for part, number in {"train": 21, "val": 1, "test": 1}.items():
        graphs = []
        for i in range(number):
            if is_image:
                graphs.append((torch.rand(3, 14), torch.rand(4, 2), edges, [i] * 3))
            else:
                graphs.append((torch.full((3, 9), i % 2), torch.zeros(4, 3).long(), edges, torch.full((1, 11), i / 10)))
        if is_image:
            (tmp_path / f"{part}.pickle").write_bytes(pickle.dumps(graphs))
        else:
            torch.save(graphs, tmp_path / f"{part}.pt")
    import_benchmark(name, tmp_path, tmp_path / "root")
    dataset = load_benchmark(name, tmp_path / "root")
    assert len(dataset.split.train) == 21
    if is_image:
        assert (dataset.task.level, dataset.store.y.shape, dataset.num_edge_features) == ("node", (69,), 2)
    else:
        assert (sum(dataset.node_categories), sum(dataset.edge_categories)) == (78, 9)
        assert dataset.store.y.shape == (23, 11)


def test_social_graphs_as_published_get_folds(tmp_path, shrink):
    shrink("imdb_multi", (60,), 3, 4)
    a = "".join(f"{3 * g + u + 1}, {3 * g + v + 1}\n" for g in range(60) for u, v in EDGES.T)
    files = {"A": a, "graph_indicator": "".join(f"{g + 1}\n" * 3 for g in range(60))}
    files["graph_labels"] = "".join(f"{g % 3 + 1}\n" for g in range(60))
    for what, text in files.items():
        (tmp_path / f"IMDB-MULTI_{what}.txt").write_text(text)
    import_benchmark("imdb-multi", tmp_path, tmp_path / "root")
    tests = [load_benchmark("imdb_multi", tmp_path / "root", fold=fold).split.test for fold in range(10)]
    assert torch.cat(tests).sort().values.tolist() == list(range(60))
    dataset = load_benchmark("imdb_multi", tmp_path / "root", fold=9)
    assert dataset.store.y[dataset.split.test].bincount().tolist() == [2, 2, 2]
    assert dataset.split.val.tolist() == tests[0].tolist()
    with pytest.raises(ValueError, match="fold must be a whole number from 0 to 9"):
        load_benchmark("imdb_multi", tmp_path / "root", fold=10)


def test_molpcba_as_published(tmp_path, shrink):
    shrink("molpcba", (2, 1, 1), 3, 4)
    tables = {
        "raw/edge": "0,1\n1,2\n" * 4,
        "raw/node-feat": ("5,0,4,5,3,0,2,0,0\n" * 3) * 4,
        "raw/edge-feat": "0,0,0\n1,0,0\n" * 4,
        "raw/num-node-list": "3\n" * 4,
        "raw/num-edge-list": "2\n" * 4,
        "raw/graph-label": (",".join(["1"] * 127) + ",\n") * 2 + (",".join(["0"] * 128) + "\n") * 2,
        "split/scaffold/train": "0\n3\n",
        "split/scaffold/valid": "1\n",
        "split/scaffold/test": "2\n",
    }
    for name, text in tables.items():
        path = tmp_path / "files" / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))
    import_benchmark("molpcba", tmp_path / "files", tmp_path / "root")
    dataset = load_benchmark("molpcba", tmp_path / "root")
    assert dataset.split.train.tolist() == [0, 3]
    assert dataset.store.y.shape == (4, 128)
    assert dataset.store.y.isnan().sum() == 2
    assert dataset.store.graph(3).edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]  # each before its reverse
    assert dataset.store.graph(3).edge_attr[:, 0].tolist() == [0, 0, 1, 1]
    assert (sum(dataset.node_categories), sum(dataset.edge_categories)) == (78, 9)


def test_edges_of_superpixels_are_those_of_the_papers_table():
    mnist, cifar10 = (BENCHMARKS[name].statistics for name in ("mnist", "cifar10"))
    assert mnist.mean_edges / mnist.mean_nodes == pytest.approx(785.39 / 80.98, rel=1e-4)
    assert cifar10.mean_edges / cifar10.mean_nodes == pytest.approx(1129.8 / 117.6)


class TestNamedFiles:
    def test_one_that_is_not_looked_for(self, zinc_folder, tmp_path):
        (zinc_folder / "zinc.csv").touch()
        with pytest.raises(ValueError, match=r"zinc\.csv does not hold ZINC: looked for train\.pickle, "):
            import_benchmark("zinc", zinc_folder / "zinc.csv", tmp_path / "root")
        assert not is_ready("zinc", tmp_path / "root")

    def test_files_as_published_may_be_compressed(self, tmp_path):
        (tmp_path / "MNIST_v2.pt.gz").write_bytes(gzip.compress(b"abc"))
        with pytest.raises(ValueError, match=r"MNIST_v2\.pt\.gz is truncated, damaged or another file"):
            import_benchmark("mnist", tmp_path, tmp_path / "root")

    def test_one_spelling_is_taken_before_another(self, zinc_folder, tmp_path):
        good = zinc_folder / "val.pickle"
        packed = zinc_folder / "val.pickle.gz"
        packed.write_bytes(gzip.compress(good.read_bytes()))
        good.write_bytes(b"abc")
        import_benchmark("zinc", packed, tmp_path / "root")
        with pytest.raises(ValueError, match=r"val\.pickle is truncated"):
            import_benchmark("zinc", good, tmp_path / "root")

    def test_other_forms_are_looked_for_first(self, zinc_folder, tmp_path):
        def read(path: Path) -> Packed:
            raise ValueError(f"{path.name} was read")

        (zinc_folder / "other.npz").touch()
        with pytest.raises(ValueError, match=r"other\.npz was read"):
            import_benchmark(
                "zinc", zinc_folder, tmp_path / "root", other_forms=[Form(files=("other.npz",), read=read)]
            )


class TestRefusals:
    @pytest.mark.parametrize("place", ["file", "file/below"])
    def test_a_root_that_cannot_be_written_to(self, zinc_folder, tmp_path, place):
        (tmp_path / "file").touch()
        with pytest.raises(ValueError, match=rf"^The data root \S+{place} cannot be written to .*--data-root"):
            import_benchmark("zinc", zinc_folder, tmp_path / place)

    def test_an_interrupted_import_leaves_nothing(self, zinc_folder, tmp_path, monkeypatch):
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("numpy.savez_compressed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_benchmark("zinc", zinc_folder, tmp_path / "root")
        assert list((tmp_path / "root").iterdir()) == []

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("zink", "There is no benchmark 'zink'. Did you mean 'zinc'?"),
            ("csl", "CSL is made in code: there is nothing to import."),
            ("counting_star", "has no published files to import. .*python -m reproduction import"),
            ("mnist", "does not hold MNIST: looked for MNIST_v2.pt"),
        ],
    )
    def test_what_cannot_be_imported(self, tmp_path, name, message):
        with pytest.raises(ValueError, match=message):
            import_benchmark(name, tmp_path, tmp_path)
        with pytest.raises(ValueError, match="There is no file or folder"):
            import_benchmark("zinc", tmp_path / "missing", tmp_path)

    def test_without_a_network(self, tmp_path, monkeypatch):
        def offline(*_: object, **__: object) -> None:
            raise OSError("Name or service not known")

        monkeypatch.setattr("urllib.request.urlopen", offline)
        with pytest.raises(ValueError, match=r"ZINC is not in \S+ and could not be downloaded .*crawl datasets import"):
            load_benchmark("zinc", tmp_path)
        with pytest.raises(ValueError, match=r"cannot be downloaded\. .*python -m reproduction import"):
            load_benchmark("counting_star", tmp_path)


def test_made_in_code():
    dataset = load_benchmark("csl_lap", fold=2)
    assert (dataset.num_node_features, len(dataset.split.train), dataset.name) == (20, 90, "CSL+Lap")
    statistics = BENCHMARKS["csl"].statistics
    assert (len(dataset), dataset.store.num_edges / 150) == (statistics.total, statistics.mean_edges)


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("csl", {"has_validation": False}, "The validation part of CSL is given: leave out has_validation."),
        ("zinc", {"has_validation": False}, "The validation part of ZINC is given: leave out has_validation."),
        ("zinc", {"fold": 3}, "ZINC has no folds: leave out fold."),
        ("csl", {"has_positions": True}, "The nodes of CSL have no coordinates: leave out has_positions."),
    ],
)
def test_what_would_change_nothing_is_refused(tmp_path, name, arguments, reason):
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        load_benchmark(name, tmp_path, **arguments)


def test_symmetric_adds_what_is_missing_and_nothing_else():
    store = GraphStore(
        torch.tensor([0, 2, 4]),
        torch.tensor([0, 1, 3]),
        torch.tensor([[1, 0, 1], [0, 1, 0]]),
        edge_attr=torch.arange(3),
    )
    both = symmetric(store)
    assert both.edge_ptr.tolist() == [0, 2, 4]
    assert both.edge_index.tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]
    assert both.edge_attr.tolist() == [0, 0, 1, 2]
