"""Exported networks: programs of torch that answer as the network does, for batches of any size."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv

import crawl
from crawl import CRaWl, Embedding, Graph, Network, OneHot, sample_walks
from crawl.nn import Block, State, from_pyg

HYBRID = ("walk", "edge_update", "gine", "virtual_node")
SMALL: dict[str, Any] = {"hidden_channels": 8, "num_layers": 2, "edge_dim": 2, "num_eval_steps": 20, "window_size": 4}
ONE_BY_ONE = {name: value for name, value in SMALL.items() if name != "num_layers"}


def graph(seed: int, num_nodes: int) -> Data:
    """A path with chords, with features of nodes, edges and the graph."""
    generator = torch.Generator().manual_seed(seed)
    chords = torch.randint(num_nodes, (2, num_nodes // 2), generator=generator)
    path = torch.stack([torch.arange(num_nodes - 1), torch.arange(1, num_nodes)])
    edges = torch.cat([path, chords[:, chords[0] != chords[1]]], dim=1)
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    x, edge_attr = torch.randn(num_nodes, 3, generator=generator), torch.randn(edges.shape[1], 2, generator=generator)
    return Data(x=x, edge_index=edges, edge_attr=edge_attr)


def batch(seed: int, *sizes: int) -> Any:
    """A batch of such graphs."""
    return Batch.from_data_list([graph(seed + i, size) for i, size in enumerate(sizes)])


def trained(model: nn.Module) -> Any:
    """The model with running statistics and weights that are not the first ones."""
    for seed in range(3):
        model(batch(seed, 7, 8))
    return model.eval()


def check(model: Any, program: Any, data: Any, num_steps: int) -> None:
    """The program answers as the network does for these walks."""
    walks = None
    if model.walk_plan is not None:
        walks = model.sample_walks(Graph.from_data(data), num_steps=num_steps, seed=num_steps)
    with torch.no_grad():
        expected = model(data, walks=walks)
        answer = program.module()(**crawl.export_inputs(model, data, walks))
    torch.testing.assert_close(answer, expected, rtol=1e-5, atol=1e-5)


def other_sizes() -> list[tuple[Any, int]]:
    """Batches of other sizes than the example, with the length of walks: several graphs, one, and one with an isolated
    node."""
    lonely = graph(9, 6)
    lonely.x = torch.cat([lonely.x, torch.ones(1, 3)])
    return [(batch(3, 5, 9, 12, 4), 30), (batch(4, 11), 7), (Batch.from_data_list([lonely, graph(2, 5)]), 20)]


@pytest.mark.parametrize(
    "model",
    [
        Network(3, 2, layer=HYBRID, **SMALL),
        Network(3, 2, layers=("walk_edges", "gated_gcn"), pool=None, strategy="restart", **ONE_BY_ONE),
        Network(3, 1, layers=(("gat", "pna"),), norm="layer", hidden_channels=8, edge_dim=2),
    ],
    ids=["hybrid", "edges, nodes, jumps", "without walks"],
)
def test_programs_answer_as_the_network_for_other_sizes(model: Any) -> None:
    model = trained(model)
    program = crawl.export(model, batch(0, 6, 7, 8))
    for data, num_steps in other_sizes():
        check(model, program, data, num_steps)


def test_the_network_of_the_paper_is_saved_and_runs_without_crawl(tmp_path: Path) -> None:
    model = trained(CRaWl(3, 2, virtual_node=True, **SMALL))
    torch.export.save(crawl.export(model, batch(0, 6, 7, 8)), tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2")
    for data, num_steps in other_sizes():
        check(model, program, data, num_steps)
    data = batch(1, 5, 6)
    walks = sample_walks(Graph.from_data(data), 9, window_size=4, seed=0)
    torch.save(crawl.export_inputs(model, data, walks), tmp_path / "inputs.pt")
    code = (
        "import sys, torch; sys.modules['crawl'] = None  # importing it would fail\n"
        "program, inputs = torch.export.load('model.pt2'), torch.load('inputs.pt')\n"
        "torch.save(program.module()(**inputs).detach(), 'answer.pt')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=tmp_path)
    with torch.no_grad():
        expected = model(data, walks=walks)
    torch.testing.assert_close(torch.load(tmp_path / "answer.pt"), expected, rtol=1e-5, atol=1e-5)


def test_one_graph_is_example_enough_and_the_model_is_left_as_it_is() -> None:
    model = trained(CRaWl(3, 2, **SMALL))
    model.train()
    model.blocks[0].eval()
    program = crawl.export(model, graph(0, 9))
    assert [model.training, model.blocks[0].training, model.blocks[1].training] == [True, False, True]
    check(model.eval(), program, batch(2, 4, 8, 5), 12)
    assert not any(isinstance(value, torch._subclasses.FakeTensor) for value in model.state_dict().values())
    model(batch(0, 5, 6))  # no cache has kept tensors without values


def test_categories_and_data_without_features() -> None:
    for nodes, x, wrong in ((OneHot([3, 2]), [[2, 1]], [[3, 0]]), (Embedding([3, 2], 4), [[0, 1]], [[0, -1]])):
        model = CRaWl(nodes, 1, **{**SMALL, "edge_dim": 0, "num_layers": 1}).eval()
        data = Data(x=torch.tensor(x * 6), edge_index=graph(0, 6).edge_index)
        program = crawl.export(model, data)
        larger = Data(x=torch.tensor(x * 9), edge_index=graph(1, 9).edge_index)
        check(model, program, larger, 11)
        inputs = crawl.export_inputs(model, larger)
        with pytest.raises(RuntimeError, match="x holds categories that the network does not know"):
            program.module()(**inputs | {"x": torch.tensor(wrong * 9)})
    bare = CRaWl(1, 1, **{**SMALL, "edge_dim": 1, "num_layers": 1}).eval()
    program = crawl.export(bare, Data(edge_index=graph(0, 6).edge_index, num_nodes=6))
    check(bare, program, Data(edge_index=graph(1, 9).edge_index, num_nodes=9), 11)


def test_features_of_graphs() -> None:
    model = CRaWl(3, 1, graph_channels=2, **{**SMALL, "num_layers": 1}).eval()
    small, large = batch(0, 5, 6), batch(1, 7, 8, 9)
    small.u, large.u = torch.randn(2, 2), torch.randn(3, 2)
    check(model, crawl.export(model, small), large, 11)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("walk_nodes", -1, "walk_nodes holds ids outside the graph"),
        ("walk_edges", 10_000, "walk_edges holds ids outside the graph"),
        ("edge_index", -1, "edge_index holds ids outside the graph"),
        ("ptr", 0, "ptr must rise from 0 to the nodes"),
    ],
)
def test_programs_refuse_ids_outside_the_graph(name: str, value: int, message: str) -> None:
    model = CRaWl(3, 2, **{**SMALL, "num_layers": 1}).eval()
    inputs = crawl.export_inputs(model, graph(0, 6))
    program = _exported_once(model)
    with pytest.raises(RuntimeError, match=message):
        program.module()(**inputs | {name: torch.full_like(inputs[name], value)})


_PROGRAMS: list[Any] = []


def _exported_once(model: CRaWl) -> Any:
    if not _PROGRAMS:
        _PROGRAMS.append(crawl.export(model, graph(0, 6)))
    return _PROGRAMS[0]


class Asks(Block):
    """A block that asks how large a value is."""

    uses_walks = passes_messages = sees_edges = False

    def forward(self, state: State, batch: Any) -> State:
        """The state, or an error."""
        return state if float(state.nodes.sum()) < 1e9 else State(state.nodes * 2, state.edges, state.graphs)


class Fixes(Block):
    """A block that makes the number of nodes a constant."""

    uses_walks = passes_messages = sees_edges = False

    def forward(self, state: State, batch: Any) -> State:
        """The state."""
        return State(state.nodes + torch.zeros(len(state.nodes), 1), state.edges, state.graphs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            Network(3, 1, layer=("walk", "attention"), **SMALL),
            r"Attention \(blocks.1\) cannot be exported, since it lays",
        ),
        (Network(3, 1, layer=("gru",), **SMALL), r"WalkGRU \(blocks.0\) cannot be exported, since torch.export writes"),
        (Network(3, 1, layers=("walk", from_pyg(GCNConv(8, 8))), **ONE_BY_ONE), "PyGBlock"),
        (Network(3, 1, layer=("walk",), pair="mlp", pool=None, **SMALL), r"PairReadout \(readout\) cannot be exported"),
        (Network(3, 1, layers=("walk", Asks()), **ONE_BY_ONE), "^Asks cannot be exported, since torch.export says"),
        (
            Network(3, 1, layers=("walk", Fixes()), **ONE_BY_ONE),
            "cannot be exported, since torch.export says.*[Cc]onstraint",
        ),
        (nn.Linear(3, 3), "model must be"),
    ],
)
def test_what_cannot_be_exported_is_refused_by_name(model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        crawl.export(model, batch(0, 6, 7))


def test_walks_that_a_program_would_misread_are_refused() -> None:
    model, data = CRaWl(3, 2, **SMALL), graph(0, 6)
    with pytest.raises(ValueError, match=r"window_size=8.*with window_size=4"):
        crawl.export_inputs(model, data, sample_walks(Graph.from_data(data), 20, window_size=8))
    with pytest.raises(ValueError, match="No block of this network uses walks"):
        crawl.export_inputs(Network(3, 2, layer=("gine",), edge_dim=2), data, sample_walks(Graph.from_data(data), 20))
    alone = Data(x=torch.ones(2, 3), edge_index=torch.empty(2, 0, dtype=torch.long), edge_attr=torch.empty(0, 2))
    with pytest.raises(ValueError, match="fewer than two nodes or walks"):
        crawl.export(model, alone)
