"""Training steps: what is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count, cycle
from typing import Any

import torch
from torch import Tensor

from crawl import CRaWl, Dense, Network, OneHot
from crawl.data.dataset import Dataset
from crawl.data.identity import graph_keys
from crawl.nn import Batch
from crawl.ops.triton.streams import backward
from crawl.training import Evaluation, Trainer, Training
from crawl.training.runner import Runner
from crawl.training.seeds import derive_seed
from crawl.training.trainer import Scaling, summed_loss

Step = Callable[[], Any]
Settings = Mapping[str, Any]  # keyword arguments of `crawl.CRaWl`, or of `crawl.Network` if there is a layer

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


HYBRID: Settings = {
    "layer": ("walk", "edge_update", "gine", "virtual_node"),
    "hidden_channels": 80,
    "num_layers": 5,
    "pool": "sum",
}
HYBRID_PARAMETERS = 458_161


def our_step(
    dataset: Dataset, settings: Settings, *, batch_size: int, device: torch.device, precision: str = "tf32"
) -> Step:
    """A training step of the model of these settings; see `training_step`."""
    return training_step(dataset, build_model(dataset, settings, precision=precision), batch_size, device)


def training_step(
    dataset: Dataset, model: Network, batch_size: int, device: torch.device, *, is_captured: bool = True
) -> Step:
    """A call that runs one whole training step as `Trainer` runs them; compiled and captured in its first calls."""
    trainer = Trainer(model, dataset, Training(batch_size=batch_size), Evaluation(), device=str(device))
    if not is_captured:
        trainer.runner.reason = "to be measured"
    trainer.model.train()
    batches = full_batches(dataset, batch_size)
    return _endless(lambda seed: trainer.steps(batches, seed))


def forward_and_backward(
    dataset: Dataset, model: Network, batch_size: int, device: torch.device, *, is_captured: bool
) -> dict[str, Step]:
    """Calls for the forward pass alone, without gradients, and for forward and backward pass together."""
    runner = Runner(
        model.to(device).train(), dataset.task, dataset.store, device, largest_batch=batch_size, is_captured=is_captured
    )
    batches = full_batches(dataset, batch_size)

    def forward(batch: Batch) -> Tensor:
        with torch.no_grad():
            return runner.answer(batch)

    def both(batch: Batch) -> Tensor:
        model.zero_grad()
        answer = runner.answer(batch)
        backward(answer.mean())
        return answer.detach()

    buffers = lambda: list(model.buffers())  # noqa: E731
    return {
        name: _endless(
            lambda seed, f=function: runner.run(f, batches, batch_size, seed=seed, is_training=True, protected=buffers)
        )
        for name, function in (("forward", forward), ("forward and backward", both))
    }


def full_batches(dataset: Dataset, batch_size: int) -> list[Tensor]:
    """The training graphs in batches of equal size."""
    order = dataset.split.train[torch.randperm(len(dataset.split.train))]
    return [ids for ids in torch.split(order, batch_size) if len(ids) == batch_size]


def _endless(epoch: Callable[[int], Iterator[Tensor]]) -> Step:
    def steps() -> Iterator[Tensor]:
        for number in count():
            yield from epoch(derive_seed(0, "walks", number))

    running = steps()
    return lambda: next(running)


def reference_step(dataset: Dataset, settings: Settings, *, batch_size: int, device: torch.device) -> Step:
    """The same with our reference implementation, eagerly."""
    return eager_step(dataset, build_model(dataset, settings, implementation="reference"), batch_size, device)


def eager_step(dataset: Dataset, model: Network, batch_size: int, device: torch.device) -> Step:
    """A training step as `Trainer` does it: assemble a batch from the store, model, loss, Adam."""
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
        total, count = summed_loss(dataset.task, "auto", output, batch.y, Scaling())
        optimiser.zero_grad()
        torch.autograd.backward(total / count.clamp_min(1))
        optimiser.step()

    return step


def build_model(dataset: Dataset, settings: Settings, **more: Any) -> Network:
    """The model for a data set, always with the same weights: `CRaWl`, or a network if the settings have a layer."""
    torch.manual_seed(0)
    edge_dim = OneHot(dataset.edge_categories) if dataset.edge_categories else Dense(dataset.num_edge_features)
    return (Network if "layer" in settings else CRaWl)(
        OneHot(dataset.node_categories) if dataset.node_categories else Dense(max(dataset.num_node_features, 1)),
        dataset.task.num_outputs,
        **{"edge_dim": edge_dim, **settings, **more},
    )


def num_parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
