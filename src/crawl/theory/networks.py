"""What a small trained network tells apart: CRaWl, or a message-passing GIN to compare with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from crawl.models import CRaWl, Network
from crawl.theory.chain import WalkStrategy
from crawl.theory.simple import AnyGraph, arcs, simple_graph

NetworkName = Literal["crawl", "gin"]
_ENOUGH = 400
_SETTLING = 50


@dataclass(frozen=True)
class Trained:
    """How well a trained network names graphs it is shown, with their nodes renumbered at random.

    Attributes:
        accuracy: The share of right answers on fresh copies, as many of each graph.
        chance: The accuracy of guessing.
        num_tests: The number of copies it was tested on.
        num_updates: The steps of training it took, until 400 answers in a row were right or time was up.
        num_parameters: The size of the network.
        time_s: The seconds it took.
    """

    accuracy: float
    chance: float
    num_tests: int
    num_updates: int
    num_parameters: int
    time_s: float


def train_to_tell_apart(
    graphs: Sequence[AnyGraph],
    network: NetworkName = "crawl",
    *,
    window_size: int = 8,
    strategy: WalkStrategy = "non_backtracking",
    num_steps: int = 50,
    hidden_channels: int = 32,
    num_layers: int = 2,
    copies: int = 4,
    max_updates: int = 300,
    lr: float = 3e-3,
    num_tests: int = 200,
    seed: int = 0,
) -> Trained:
    """Train a small network to say which of the graphs it is shown, and test it on fresh copies with fresh walks.

    The same seed gives the same result on the same machine. Every update sees `copies` copies of each graph, their
    nodes renumbered, so there is nothing to learn but their structure.

    `window_size` (even; the kernel is one wider), `strategy` and `num_steps` (three times as many in the test) are of
    CRaWl. GIN gets two layers more. `num_tests` is about how many copies to test on.
    """
    if len(graphs) < 2:
        raise ValueError("Give two graphs or more to tell apart.")
    begin = time.perf_counter()
    simple = [arcs(graph) for graph in map(simple_graph, graphs)]
    edges = [torch.stack([torch.from_numpy(source), torch.from_numpy(target)]) for source, target in simple]
    sizes = [simple_graph(graph).num_nodes for graph in graphs]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        size: dict[str, Any] = {"out_channels": len(graphs), "hidden_channels": hidden_channels}
        walk: dict[str, Any] = {"window_size": window_size, "strategy": strategy, "num_steps": num_steps}
        if network == "crawl":
            model: nn.Module = CRaWl(1, **size, num_layers=num_layers, **walk, num_eval_steps=3 * num_steps)
        else:
            model = Network(1, **size, num_layers=num_layers + 2, layer=("gin",))
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        right_in_a_row = num_updates = 0
        while num_updates < max_updates and right_in_a_row < _ENOUGH:
            batch, target = _copies(edges, sizes, copies)
            logits = model(batch)
            loss = nn.functional.cross_entropy(logits, target)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            num_updates += 1
            right = bool((logits.argmax(1) == target).all())
            right_in_a_row = right_in_a_row + len(target) if right else 0
        correct, num_shown = 0, 0
        with torch.no_grad():
            for _ in range(_SETTLING):  # few updates leave the running means of the batch norms out of date
                model(_copies(edges, sizes, copies)[0])
            model.eval()
            while num_shown < num_tests:
                batch, target = _copies(edges, sizes, copies)
                correct += int((model(batch).argmax(1) == target).sum())
                num_shown += len(target)
    return Trained(
        accuracy=correct / num_shown,
        chance=1 / len(graphs),
        num_tests=num_shown,
        num_updates=num_updates,
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        time_s=time.perf_counter() - begin,
    )


def _copies(edges: list[Tensor], sizes: list[int], copies: int) -> tuple[Batch, Tensor]:
    """Some copies of each graph under new numbers of their nodes, in random order, and which graph each is."""
    target = torch.arange(len(edges)).repeat(copies)[torch.randperm(len(edges) * copies)]
    data = []
    for label in target.tolist():
        size = sizes[label]
        data.append(Data(x=torch.ones(size, 1), edge_index=torch.randperm(size)[edges[label]], num_nodes=size))
    return Batch.from_data_list(data), target
