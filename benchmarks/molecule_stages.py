"""What both benchmarks of many molecules need, without rdkit: a network, stages, a store by repetition, PyG's data.

A stage is a process of its own.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import environment, progress, watched
from torch_geometric.data import Data, OnDiskDataset

from crawl.data import Split, open_packed
from crawl.data.packing import Shards, Spool, new_folder
from crawl.runs import Experiment, Model, Packed
from crawl.training import Evaluation, Training
from crawl.walks.plan import WalkPlan

FULL = 5_000_000
MOST_GB = 2.0
BATCH = 100
EXPERIMENT = Experiment(
    data=Packed(),
    walk=WalkPlan(num_steps=20, num_eval_steps=20, window_size=4),
    model=Model(("walk", "virtual_node"), hidden_channels=32, num_layers=2, pool="sum"),
    training=Training(batch_size=BATCH, max_epochs=1, normalise_targets=True),
    evaluation=Evaluation(num_val_repeats=1, num_test_repeats=1, batch_size=BATCH),
)


def stage(folder: Path, name: str, call: str) -> dict[str, Any]:
    """`module.function(…)` of this folder in a process of its own: its memory, its time, and what it says.

    A stage whose record is in the folder is not repeated.
    """
    record, log = folder / f"{name}.json", folder / f"{name}.log"
    if not record.is_file():
        progress(f"{name}: {call}")
        code = (
            f"import json, time, {call.partition('.')[0]}; from molecule_stages import cpu_seconds; "
            f"b, w = cpu_seconds(), time.perf_counter(); f = {call}; t = {{'work_cpu_seconds': cpu_seconds() - b}}; "
            "t['work_seconds'] = time.perf_counter() - w; print(); print(json.dumps({**t, **f}))"
        )
        found = watched([sys.executable, "-c", code], log)
        keep(record, {**found, **json.loads(log.read_text().splitlines()[-1])})
    result: dict[str, Any] = json.loads(record.read_text())
    return result


def keep(record: Path, found: dict[str, Any]) -> None:
    """Write the record of a stage, with the commit that it ran on."""
    record.write_text(json.dumps({**found, "commit": environment([])["Commit"]}))


def cpu_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def size_of(folder: str) -> int:
    """The bytes of all files in a folder."""
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


def repeat(source: str, store: str, number: int) -> dict[str, Any]:
    """A store of this many molecules, those of a small one, which are read once, again and again."""
    packed: Any = open_packed(source, verify=False)
    few = packed.store.subset(range(len(packed)))
    with new_folder(store) as folder, ExitStack() as files:
        spool = Spool(files, folder)
        for first in range(0, number, len(few)):
            part = few if first + len(few) <= number else few.subset(range(number - first))
            spool.append(
                part.sizes.t().int().numpy(), [""] * len(part), edges=part.edge_index.t().int().numpy(),
                x=part.x.byte().numpy(), edge_attr=part.edge_attr.byte().numpy(),
            )  # fmt: skip
        order = torch.from_numpy(np.random.default_rng(0).permutation(number))
        parts = torch.split(order, [number - 2 * (number // 10), number // 10, number // 10])
        spool.write(
            folder, np.ones(number, bool), name="many", task=packed.task,
            y=packed.store.y[torch.arange(number) % len(packed)], sample_weight=None,
            split=Split(*(part.sort().values for part in parts)), shards=Shards(4),
            node_categories=packed.node_categories, edge_categories=packed.edge_categories,
        )  # fmt: skip
    return {"number": number, "of": len(few), "bytes": size_of(store)}


class OnDisk(OnDiskDataset):  # type: ignore[misc]
    """The same molecules in a data set of PyG on disk."""

    def __init__(self, root: str) -> None:
        schema: Any = {
            "x": {"dtype": torch.int64, "size": (-1, 9)}, "edge_index": {"dtype": torch.int64, "size": (2, -1)},
            "edge_attr": {"dtype": torch.int64, "size": (-1, 3)}, "y": float,
        }  # fmt: skip
        super().__init__(root, schema=schema)

    def serialize(self, data: Any) -> dict[str, Any]:
        """The columns of a row."""
        return {name: data[name] for name in self.schema}

    def deserialize(self, data: dict[str, Any]) -> Any:
        """The graph of a row."""
        return Data(**{**data, "y": torch.tensor([data["y"]])})


def write_on_disk(root: str, pieces: Iterable[list[Any]]) -> dict[str, Any]:
    """Lists of graphs, whose targets are numbers, in PyG's data set on disk."""
    dataset, number = OnDisk(root), 0
    for graphs in pieces:
        dataset.extend(graphs, batch_size=1000)
        number += len(graphs)
    dataset.close()
    return {"number": number, "bytes": size_of(root)}


def unpack(store: str, root: str, number: int) -> dict[str, Any]:
    """The first molecules of a packed store in PyG's data set on disk."""
    packed: Any = open_packed(store, verify=False)

    def pieces() -> Any:
        for part in packed.store.chunks(torch.arange(min(number, len(packed))), size=1000):
            graphs = [part.graph(i) for i in range(len(part))]
            for graph in graphs:
                graph.y = float(graph.y)
            yield graphs

    return write_on_disk(root, pieces())
