"""What a process does that trains with others: its rank is in the environment.

It writes the weights after each case, or what went wrong, to `CASE-SIZE-RANK.pt` in a folder. Cases whose names begin
with `gpu` train on a GPU, which processes share here; with `nccl` as the first case, NCCL adds up there all the same.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from crawl import Network
from crawl.data import Dataset, GraphStore, Split, Task
from crawl.training import Evaluation, Trainer, Training
from crawl.training import ranks as ranks_module
from crawl.training.ranks import Ranks, death

ONCE = Evaluation(num_val_repeats=1, num_test_repeats=1)
BASE: dict[str, Any] = {"lr": 0.01, "batch_size": 6, "max_epochs": 3, "sync_norms": True}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "local": {"sync_norms": False},
    "everything": {"accumulate": 2, "average_decay": 0.9, "clip_norm": 0.5, "optimiser": "adamw", "weight_decay": 0.1},
}
CASES |= {f"gpu-{name}": {**settings, "sync_norms": False} for name, settings in CASES.items()}


def dataset(dtype: torch.dtype = torch.float64) -> Dataset:
    """Cycles whose means are to be told; some targets are missing, and the last batch has one graph."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for i in range(19):
        size = 4 + i % 4
        node = torch.arange(size)
        edges = torch.stack([node, (node + 1) % size])
        x = torch.randn(size, 3, generator=generator, dtype=torch.float64).to(dtype)
        y = x.mean(0, keepdim=True)[:, :2].clone()
        y[0, 0] = torch.nan if i % 5 == 0 else y[0, 0]
        graphs.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=y))
    every = torch.arange(19)
    task = Task(kind="regression", num_outputs=2)
    return Dataset("tiny", GraphStore.from_graphs(graphs), task, Split(every[:13], every[13:16], every[16:]))


def trainer(case: str, ranks: Ranks, seed: int = 0) -> Trainer:
    """The training of a case, not begun; each process draws other first weights, of which the first's count."""
    torch.manual_seed(seed if ranks.is_first else 100 + ranks.rank)
    is_on_gpu = case.startswith("gpu")  # where steps with synchronised norms are not captured, so there are none
    layer = ("walk", "gine") if is_on_gpu else ("walk", "gine", "virtual_node")
    sizes: dict[str, Any] = {"num_layers": 2, "hidden_channels": 8, "num_steps": 8, "num_eval_steps": 8}
    network = Network(3, 2, layer=layer, **sizes, window_size=4, norm="none" if is_on_gpu else "batch")
    training = Training(**{**BASE, **CASES[case]})
    evaluation = Evaluation(num_val_repeats=1, num_norm_graphs=13, batch_size=4) if case == "everything" else ONCE
    if is_on_gpu:
        return Trainer(network, dataset(torch.float32), training, evaluation, device="cuda", ranks=ranks)
    return Trainer(network.double(), dataset(), training, evaluation, device="cpu", ranks=ranks)


def outcome(case: str, ranks: Ranks) -> dict[str, Any]:
    """Weights, losses and scores of a case."""
    trained = trainer(case, ranks)
    records = [{**record, "seconds": 0} for record in trained.epochs()]
    test = trained.evaluate(trained.split.test, 2, "test").repeats
    weights = {name: tensor.clone() for name, tensor in trained.model.state_dict().items()}
    found = {"weights": weights, "records": records, "test": torch.from_numpy(test), "best": trained.best_weights}
    return {**found, "how": trained.runner.how, "sums_in_steps": ranks.sum_in_captured_steps}


def train_cases(folder: Path, *cases: str) -> None:
    """What a process does; `die` is the last case there is."""
    if cases[0] == "nccl":
        _, *cases = cases
        ranks_module.backend_for_gpus = lambda _: "nccl"
    ranks = Ranks.of_this_process()
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
