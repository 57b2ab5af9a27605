"""A process that trains with others: `python together.py FOLDER CASE`, with its rank in the environment.

It writes the weights after each case, or what went wrong, to `CASE-SIZE-RANK.pt` in the folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from crawl import Network
from crawl.data import Dataset, GraphStore, Split, Task
from crawl.training import Evaluation, Trainer, Training
from crawl.training.ranks import Ranks, death

ONCE = Evaluation(num_val_repeats=1, num_test_repeats=1)
BASE: dict[str, Any] = {"lr": 0.01, "batch_size": 6, "max_epochs": 3, "sync_norms": True}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "local": {"sync_norms": False},
    "everything": {"accumulate": 2, "average_decay": 0.9, "clip_norm": 0.5, "optimiser": "adamw", "weight_decay": 0.1},
}


def dataset() -> Dataset:
    """Cycles whose means are to be told; some targets are missing, and the last batch has one graph."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for i in range(19):
        size = 4 + i % 4
        node = torch.arange(size)
        edges = torch.stack([node, (node + 1) % size])
        x = torch.randn(size, 3, generator=generator, dtype=torch.float64)
        y = x.mean(0, keepdim=True)[:, :2].clone()
        y[0, 0] = torch.nan if i % 5 == 0 else y[0, 0]
        graphs.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=y))
    every = torch.arange(19)
    task = Task(kind="regression", num_outputs=2)
    return Dataset("tiny", GraphStore.from_graphs(graphs), task, Split(every[:13], every[13:16], every[16:]))


def trainer(case: str, ranks: Ranks, seed: int = 0) -> Trainer:
    """The training of a case, not begun; each process draws other first weights, of which the first's count."""
    torch.manual_seed(seed if ranks.is_first else 100 + ranks.rank)
    layer = ("walk", "gine", "virtual_node")
    network = Network(3, 2, layer=layer, num_layers=2, hidden_channels=8, num_steps=8, num_eval_steps=8, window_size=4)
    training = Training(**{**BASE, **CASES[case]})
    evaluation = Evaluation(num_val_repeats=1, num_norm_graphs=13, batch_size=4) if case == "everything" else ONCE
    return Trainer(network.double(), dataset(), training, evaluation, device="cpu", ranks=ranks)


def outcome(case: str, ranks: Ranks) -> dict[str, Any]:
    """Weights, losses and scores of a case."""
    trained = trainer(case, ranks)
    records = [{**record, "seconds": 0} for record in trained.epochs()]
    test = trained.evaluate(trained.split.test, 2, "test").repeats
    weights = {name: tensor.clone() for name, tensor in trained.model.state_dict().items()}
    return {"weights": weights, "records": records, "test": torch.from_numpy(test), "best": trained.best_weights}


if __name__ == "__main__":
    torch.set_num_threads(1)
    ranks = Ranks.of_this_process()
    folder, *cases = sys.argv[1:]
    for case in cases:
        if case == "die":
            training = trainer("plain", ranks)
            next(training.epochs())
            if ranks.rank == 1:
                os._exit(9)
            try:
                next(training.epochs())
            except RuntimeError as error:
                found = death()  # as a process finds that was told to stop
                told = f"{type(error).__name__}: {error}\n{found}\n{found is not None and found.is_told_here}"
                Path(folder, f"die-{ranks.rank}.txt").write_text(told)
            os._exit(0)
        torch.save(outcome(case, ranks), Path(folder, f"{case}-{ranks.size}-{ranks.rank}.pt"))
