"""Links of Cora: rows that are run once and resume, and scores of common neighbours."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crawl import Graph
from crawl.data import from_links
from reproduction import links
from reproduction.__main__ import main
from reproduction.links import METRICS, TITLES, cora_graph, neighbour_scores, read_rows, run_rows, write_links_report


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = nx.stochastic_block_model([15, 15, 15], np.full((3, 3), 0.03) + 0.4 * np.eye(3), seed=0)
    edges = torch.tensor(list(graph.edges)).t()
    data = Data(x=torch.randn(45, 3, generator=torch.Generator().manual_seed(0)), edge_index=edges, num_nodes=45)
    monkeypatch.setattr(links, "cora_links", lambda root: from_links(data, undirected=True, fractions=(0.6, 0.2, 0.2)))


def test_neighbour_scores_are_those_of_networkx() -> None:
    graph = nx.gnp_random_graph(40, 0.15, seed=1)
    graph.add_node(40)
    pairs = torch.combinations(torch.arange(41))
    found = neighbour_scores(Graph.from_networkx(graph), pairs)
    common = [len(list(nx.common_neighbors(graph, u, v))) for u, v in pairs.tolist()]
    assert found["common_neighbours"].tolist() == common
    adamic_adar = [value for _, _, value in nx.adamic_adar_index(graph, pairs.tolist())]
    assert found["adamic_adar"].tolist() == pytest.approx(adamic_adar)
    turned = neighbour_scores(Graph.from_networkx(graph), pairs.flip(1))
    assert torch.equal(turned["common_neighbours"], found["common_neighbours"])


def test_rows_are_run_once_and_make_a_table(tmp_path: Path) -> None:
    how = {"num_seeds": 2, "epochs": 2, "device": "cpu", "quiet": True}
    run_rows(tmp_path, networks=["hybrid", "common_neighbours"], **how)
    first = {row.seed: row for row in read_rows(tmp_path) if row.network == "hybrid"}
    assert list(first) == [0, 1]
    assert set(first[0].scores) == {"val", "test"}
    assert set(first[0].scores["test"]) == set(METRICS)
    assert first[0].scores != first[1].scores
    assert first[0].scores["val"]["roc_auc"]["mean"] > 0.2
    assert first[0].run["num_epochs"] == 2

    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("hybrid-*.json")}
    run_rows(tmp_path, **how)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    trained = [name for name in ("walk", "hybrid", "gcn", "gcn_autoencoder") for _ in range(2)]
    assert [row.network for row in read_rows(tmp_path)] == [*trained, "common_neighbours", "adamic_adar"]
    text = write_links_report(tmp_path)[0].read_text()
    for title in TITLES.values():
        assert f"| {title} |" in text
    assert "hybrid, seed 1: gcn walk; epoch" in text
    with pytest.raises(ValueError, match="was trained with other settings: choose another folder"):
        run_rows(tmp_path, **(how | {"epochs": 3}))


def test_trials_are_told_below_the_table(tmp_path: Path) -> None:
    run_rows(tmp_path, networks=["common_neighbours"], device="cpu", quiet=True)
    assert "Trials" not in write_links_report(tmp_path)[0].read_text()
    trial = {"network": "walk", "settings": "padding", "seed": 0, "val": {"roc_auc": 0.75}, "best_epoch": 3}
    content = {"format": "crawl-link-trials-1", "trials": [trial, trial | {"val": {"roc_auc": 0.5}}]}
    (tmp_path / "trials.json").write_text(json.dumps(content))
    text = write_links_report(tmp_path)[0].read_text()
    assert "2 trials in all" in text
    assert "| CRaWl | padding | 0.7500 | 3 |" in text
    content["trials"][1]["val"] = {"ap": 0.5}
    (tmp_path / "trials.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="its trials have different scores"):
        write_links_report(tmp_path)
    (tmp_path / "trials.json").write_text("{}")
    with pytest.raises(ValueError, match="it is not a list of trials"):
        write_links_report(tmp_path)


def test_a_run_that_was_stopped_resumes(tmp_path: Path) -> None:
    how = {"networks": ["gcn_autoencoder"], "num_seeds": 1, "epochs": 3, "device": "cpu", "quiet": True}
    run_rows(tmp_path / "whole", **how)
    run_rows(tmp_path / "parts", **how, minutes=1e-9)
    assert not list((tmp_path / "parts").glob("*.json"))
    run_rows(tmp_path / "parts", **how)
    assert read_rows(tmp_path / "parts")[0].scores == read_rows(tmp_path / "whole")[0].scores


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["links", "adamic_adar", "--out", str(tmp_path), "--device", "cpu"]) == 0
    assert "| Adamic–Adar |" in capsys.readouterr().out
    assert main(["links", "--report", "--out", str(tmp_path)]) == 0
    row = json.loads((tmp_path / "adamic_adar-seed-0.json").read_text())
    assert row["run"]["wall_time_s"] >= 0
    assert main(["links", "neighbours", "--out", str(tmp_path)]) == 2
    assert main(["links", "--report", "--out", str(tmp_path / "empty")]) == 2
    (tmp_path / "adamic_adar-seed-0.json").write_text("{}")
    assert main(["links", "--report", "--out", str(tmp_path)]) == 2
    assert "it is not a row of links" in capsys.readouterr().err


def test_cora_is_that_of_the_data_root(tmp_path: Path) -> None:
    """The file that `import` writes is the one that is read: words, both directions of each edge, no classes."""
    edges = np.array([[i, i + 1] for i in range(2707)] + [[i, i + 2] for i in range(2571)])  # as many as published
    arrays = {"num_nodes": 2708, "num_features": 1433, "edges": edges, "y": np.arange(2708) % 7}
    arrays |= {"x_indptr": np.arange(2709), "x_indices": np.arange(2708) % 1433}
    arrays |= {"train": np.arange(140), "val": np.arange(140, 640), "test": np.arange(1708, 2708)}
    np.savez(tmp_path / "cora.npz", **arrays)
    root = tmp_path / "data"
    assert main(["import", "cora", str(tmp_path), "--data-root", str(root)]) == 0
    data = cora_graph(root)
    assert data.x.argmax(dim=1).tolist() == [i % 1433 for i in range(2708)]
    assert data.y is None
    assert {tuple(edge) for edge in data.edge_index.t().tolist()} == {
        way for u, v in edges.tolist() for way in ((u, v), (v, u))
    }
