"""Small good things to begin with: graphs, files, and a trained model or two, made once in a folder of their own."""

from __future__ import annotations

import contextlib
import io
import json
import random
from functools import cached_property
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from torch_geometric.data import Data

from crawl import CRaWl, Graph, WalkPlan, build_graph_file
from crawl.cli import main
from crawl.data import Dataset, GraphStore, from_pyg, pack_graphs
from crawl.runs import Experiment, Model, TrainedModel, run_experiment
from crawl.training import Evaluation, Training

MOLECULES = """id,SMILES,logS,active,part
1,C,0.5,no,train
2,CC,1.1,no,train
3,CCC,1.4,no,train
4,CCCC,2.1,no,val
5,CCO,1.6,no,test
6,CCCCC,2.5,yes,train
7,C1CCCCC1,3.1,yes,train
8,c1ccccc1,2.9,yes,val
9,CCCCCCO,3.2,yes,test
10,CCCCN,2.4,yes,train
11,CCCCCl,2.6,yes,train
12,CCCCBr,2.7,no,train
"""
TINY = (
    *("--model.hidden-channels", "8", "--model.num-layers", "1"),
    *("--walk.num-steps", "8", "--walk.num-eval-steps", "8"),
    *("--evaluation.num-val-repeats", "1", "--evaluation.num-test-repeats", "1"),
    *("--training.max-epochs", "1", "--device", "cpu"),
)


class World:
    """A folder with files, and what is made from them. Everything is made when it is first asked for.

    Attributes:
        folder: Where the files are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def csv(self) -> Path:
        """Molecules with a number, a class and a part each."""
        return self._written("molecules.csv", MOLECULES)

    @cached_property
    def edges(self) -> Path:
        """An edge list of a small graph."""
        return self._written("edges.txt", "0 1\n1 2\n2 0\n2 3\n3 4\n4 2\n")

    @cached_property
    def graph_file(self) -> Path:
        """The graph of the edge list, with features, in a file."""
        path = self.folder / "graph.crawl"
        build_graph_file(self.edges, path, undirected=True, features=torch.ones(5, 2))
        return path

    @cached_property
    def packed(self) -> Path:
        """Some graphs in a packed store."""
        pack_graphs(graphs(10), self.folder / "packed", shards=2)
        return self.folder / "packed"

    @cached_property
    def split(self) -> Path:
        """A split of the molecules."""
        return self._written("split.json", json.dumps({"train": list(range(8)), "val": [8, 9], "test": [10, 11]}))

    @cached_property
    def tu(self) -> Path:
        """A folder in the TU format: 12 paths of 3 nodes."""
        folder = self.folder / "tu"
        folder.mkdir()
        ids = range(12)
        ends = [pair for i in ids for pair in ((3 * i + 1, 3 * i + 2), (3 * i + 2, 3 * i + 3))]
        files = {
            "A": "".join(f"{a}, {b}\n{b}, {a}\n" for a, b in ends),
            "graph_indicator": "".join(f"{i + 1}\n" * 3 for i in ids),
            "graph_labels": "".join(f"{i % 2}\n" for i in ids),
            "node_labels": "".join(f"{i % 3}\n" for i in range(36)),
        }
        for name, text in files.items():
            (folder / f"TINY_{name}.txt").write_text(text)
        return folder

    @cached_property
    def nodes_folder(self) -> Path:
        """One graph of twelve nodes in two tables."""
        folder = self.folder / "nodes"
        folder.mkdir()
        rows = "".join(f"n{i},{'red' if i % 2 else 'blue'},{i / 3},{'ab'[i % 3 % 2]}\n" for i in range(12))
        (folder / "nodes.csv").write_text("id,colour,size,label\n" + rows)
        (folder / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{i + 1}\n" for i in range(11)))
        return folder

    @cached_property
    def links_folder(self) -> Path:
        """The links of a ring of twelve nodes with chords."""
        folder = self.folder / "links"
        folder.mkdir()
        pairs = [(i, (i + 1) % 12) for i in range(12)] + [(i, i + 3) for i in range(0, 9, 2)]
        rows = "".join(f"n{u},n{v},{'ab'[u % 2]}\n" for u, v in pairs)
        (folder / "edges.csv").write_text("source,target,kind\n" + rows)
        return folder

    @cached_property
    def graphs_folder(self) -> Path:
        """A folder of 12 GraphML and JSON files with labels.csv."""
        folder = self.folder / "graphs"
        folder.mkdir()
        rows = ["file,y"]
        for i in range(12):
            graph = nx.cycle_graph(3 + i % 4)
            nx.set_node_attributes(graph, {v: ("a", "b")[v % 2] for v in graph}, "color")
            name = f"g{i}.graphml" if i % 2 else f"g{i}.json"
            if i % 2:
                nx.write_graphml(graph, folder / name)
            else:
                (folder / name).write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
            rows.append(f"{name},{i * 0.7}")
        (folder / "labels.csv").write_text("\n".join(rows) + "\n")
        return folder

    @cached_property
    def csv_run(self) -> Path:
        """A finished run on the molecules: yes or no."""
        words = ["--data.path", str(self.csv), "--data.targets", "active", "--data.split", "part"]
        return self._run("csv-run", "csv", *words)

    @cached_property
    def csl_run(self) -> Path:
        """A finished run on CSL."""
        return self._run("csl-run", "csl")

    @cached_property
    def run(self) -> Path:
        """A finished run on data of one's own, in Python."""
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return run_experiment(tiny_experiment(), self.folder / "own-run", dataset=self.dataset, quiet=True).folder

    @cached_property
    def trained(self) -> TrainedModel:
        """The model of that run: numbers from graphs with two features."""
        return TrainedModel.load(self.run, "cpu")

    @cached_property
    def dataset(self) -> Dataset:
        """Ten graphs with two features a node and one number each."""
        return from_pyg(graphs(10), seed=1, name="own")

    @cached_property
    def store(self) -> GraphStore:
        """Those graphs without targets."""
        return GraphStore.from_graphs([Data(x=g.x, edge_index=g.edge_index) for g in graphs(6)])

    def _run(self, name: str, *words: str) -> Path:
        run = self.folder / name
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(["train", *words, "--out", str(run), "--quiet", *TINY])
        assert code == 0, said.getvalue()
        return run

    def _written(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


def tiny_experiment() -> Experiment:
    """An experiment that takes a fraction of a second."""
    return Experiment(
        name="tiny",
        walk=WalkPlan(num_steps=5, num_eval_steps=5, window_size=4),
        model=Model(hidden_channels=4, num_layers=1),
        training=Training(max_epochs=1, batch_size=4),
        evaluation=Evaluation(num_val_repeats=1, num_test_repeats=1),
    )


def edges(num_nodes: int = 5) -> torch.Tensor:
    """A cycle, both ways."""
    ring = torch.arange(num_nodes)
    ahead = torch.stack([ring, (ring + 1) % num_nodes])
    return torch.cat([ahead, ahead.flip(0)], dim=1)


def data(num_nodes: int = 5, seed: int = 0) -> Data:
    """A cycle with two features a node, one an edge, and a number for a target."""
    generator = torch.Generator().manual_seed(seed)
    ends = edges(num_nodes)
    return Data(
        x=torch.rand(num_nodes, 2, generator=generator),
        edge_index=ends,
        edge_attr=torch.rand(ends.shape[1], 1, generator=generator),
        y=torch.tensor([seed + 0.5]),
    )


def graphs(number: int) -> list[Data]:
    """Cycles of 3 to 6 nodes with two features a node and a number for a target."""
    made = [data(3 + i % 4, i) for i in range(number)]
    return [Data(x=each.x, edge_index=each.edge_index, y=each.y) for each in made]


def graph() -> Graph:
    """A cycle of five nodes."""
    return Graph.from_edge_index(edges())


def model(**changed: Any) -> CRaWl:
    """A small model."""
    settings: dict[str, Any] = {"hidden_channels": 4, "num_layers": 2, "edge_dim": 1, "window_size": 4} | changed
    return CRaWl(2, 1, num_steps=6, num_eval_steps=6, **settings)


def rng_of(seed: int, kind: str, index: int) -> random.Random:
    """The random numbers of one case, whatever came before it."""
    return random.Random(f"{seed}:{kind}:{index}")
