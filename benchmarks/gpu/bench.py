"""What all sections share: the device, ZINC, and what was found so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import graphs as made
import numpy as np
import torch
from torch_geometric.data import Data

from crawl import CRaWl
from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.data.store import GraphStore
from crawl.data.task import Task
from crawl.training import Evaluation, Trainer, Training
from gpu.steps import ZINC, ZINC_BATCH, Step, our_step


@dataclass
class Bench:
    """The device, the data, and what the sections so far have found."""

    device: torch.device
    data: Path
    smoke: bool
    results: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def zinc(self) -> Dataset:
        """ZINC on the device; molecule-like graphs of the same sizes if the file is not there."""
        file = self.data / "zinc12k.npz"
        num_graphs = (40, 10, 10) if self.smoke else (10_000, 1_000, 1_000)
        if file.exists():
            store = zinc_store(file, num_graphs)
        else:
            store = GraphStore.from_graphs(made.molecules(sum(num_graphs)))
        assert store.y is not None
        train, val, test = torch.arange(sum(num_graphs)).split(num_graphs)
        return Dataset(
            name="ZINC" if file.exists() else "synthetic molecules in the sizes of ZINC",
            store=replace(store, y=store.y.view(-1, 1)).to(self.device),
            task=Task(kind="regression", num_outputs=1),
            split=Split(train, val, test),
            node_categories=(made.NUM_ATOM_TYPES,),
            edge_categories=(made.NUM_BOND_TYPES,),
        )

    @property
    def batch_size(self) -> int:
        """Graphs per step on ZINC."""
        return 10 if self.smoke else ZINC_BATCH

    @property
    def copy_bytes_per_s(self) -> float | None:
        """The copy bandwidth, if the section `ceilings` has run."""
        ceilings = self.results.get("ceilings", {}).get("raw", {})
        return ceilings["copy"]["median"] if "copy" in ceilings else None

    def some_graphs(self) -> list[Data]:
        """The first 2,000 graphs of the training part, one by one, on the CPU."""
        store = self.zinc.store.to("cpu")
        return [store.graph(i) for i in range(min(2_000, len(self.zinc.split.train)))]

    def trainer(self, model: CRaWl, seed: int = 0) -> Trainer:
        """A trainer for ZINC that validates as in the paper."""
        training = Training(batch_size=self.batch_size)
        return Trainer(model, self.zinc, training, Evaluation(num_val_repeats=2), seed=seed, device=str(self.device))

    def ours(self, **more: Any) -> Step:
        """Our training step on ZINC."""
        return our_step(self.zinc, ZINC, batch_size=self.batch_size, device=self.device, **more)


def zinc_store(file: Path, num_graphs: tuple[int, ...]) -> GraphStore:
    """Training, validation and test graphs of `zinc12k.npz`, one after the other; the first ones of each part."""
    with np.load(file) as arrays:
        parts = []
        for part, count in zip(("train", "val", "test"), num_graphs, strict=True):
            node_ptr, edge_ptr = (torch.from_numpy(arrays[f"{part}_{k}_ptr"]).long() for k in ("node", "edge"))
            store = GraphStore(
                node_ptr=node_ptr,
                edge_ptr=edge_ptr,
                edge_index=torch.from_numpy(arrays[f"{part}_edge_index"]).long(),
                x=torch.from_numpy(arrays[f"{part}_x"]).long().unsqueeze(1),
                edge_attr=torch.from_numpy(arrays[f"{part}_edge_attr"]).long().unsqueeze(1),
                y=torch.from_numpy(arrays[f"{part}_y"]),
            )
            parts.append(store if count == len(store) else store.subset(range(count)))
    return GraphStore.concatenate(parts)
