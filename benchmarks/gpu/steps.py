"""Training steps: what is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count, cycle
from typing import Any

import torch
from torch import Tensor

from crawl import CRaWl, Dense, OneHot
from crawl.data.dataset import Dataset
from crawl.data.identity import graph_keys
from crawl.training import Evaluation, Trainer, Training
from crawl.training.seeds import derive_seed
from crawl.training.trainer import Scaling, task_loss

Step = Callable[[], Any]
Settings = Mapping[str, Any]  # keyword arguments of `crawl.CRaWl`

ZINC: Settings = {
    "hidden_channels": 147,
    "num_layers": 3,
    "window_size": 8,
    "virtual_node": True,
    "pool": "sum",
    "num_steps": 50,
    "num_eval_steps": 150,
}
ZINC_BATCH = 50


def our_step(
    dataset: Dataset, settings: Settings, *, batch_size: int, device: torch.device, precision: str = "tf32"
) -> Step:
    """A call that runs one whole training step as `Trainer` runs them; compiled and recorded in its first calls."""
    model = build_model(dataset, settings, precision=precision)
    trainer = Trainer(model, dataset, Training(batch_size=batch_size, device=str(device)), Evaluation())
    trainer.model.train()
    order = dataset.split.train[torch.randperm(len(dataset.split.train))]
    batches = [ids for ids in torch.split(order, batch_size) if len(ids) == batch_size]

    def steps() -> Iterator[Tensor]:
        for epoch in count():
            yield from trainer.steps(batches, derive_seed(0, "walks", epoch))

    running = steps()
    return lambda: next(running)


def reference_step(dataset: Dataset, settings: Settings, *, batch_size: int, device: torch.device) -> Step:
    """The same with our reference implementation, eagerly."""
    return eager_step(dataset, build_model(dataset, settings, implementation="reference"), batch_size, device)


def eager_step(dataset: Dataset, model: CRaWl, batch_size: int, device: torch.device) -> Step:
    """A training step as `Trainer` does it: cut a batch from the store, model, loss, Adam."""
    model = model.to(device).train()
    store = dataset.store.to(device)
    keys = graph_keys(store)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    order = dataset.split.train[torch.randperm(len(dataset.split.train))]
    batches = cycle([ids for ids in torch.split(order, batch_size) if len(ids) == batch_size])
    number = 0

    def step() -> None:
        nonlocal number
        number += 1
        ids = next(batches)
        batch = store.batch(ids)
        batch.graph_keys = keys[ids]
        output = model(batch, seed=derive_seed(0, "walks", number))
        loss = task_loss(dataset.task, "auto", output, batch.y, Scaling())
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()

    return step


def build_model(dataset: Dataset, settings: Settings, **more: Any) -> CRaWl:
    """The model for a data set, always with the same weights."""
    torch.manual_seed(0)
    return CRaWl(
        OneHot(dataset.node_categories) if dataset.node_categories else Dense(max(dataset.num_node_features, 1)),
        dataset.task.num_outputs,
        edge_dim=OneHot(dataset.edge_categories) if dataset.edge_categories else Dense(dataset.num_edge_features),
        **settings,
        **more,
    )


def num_parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
