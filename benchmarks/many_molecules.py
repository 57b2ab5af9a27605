"""Five million molecules, from a table to predictions, in little memory: `python benchmarks/many_molecules.py`.

Makes a table of synthetic molecules, valid SMILES composed of fragments at random, and then reads, packs, trains on and
predicts them, each in a process of its own, whose memory is recorded and which counts the CPU seconds of its work.
Beside it, PyG's `OnDiskDataset` (sqlite) does the same work with fewer molecules. For the memory of training on all of
them, a packed store of the full number is made of the molecules that were read, each as often as needed. Writes
`results/many_molecules.md`, which is also printed, and `results/many_molecules.json`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import HERE, environment, progress, watched
from torch_geometric.data import OnDiskDataset
from torch_geometric.loader import DataLoader

from crawl.data import Split, open_packed, pack_csv
from crawl.data.packed import PackedStore
from crawl.data.packing import Shards, Spool, new_folder
from crawl.data.smiles import molecule_graph
from crawl.data.table import Table
from crawl.molecule_arrays import parse_molecules
from crawl.runs import Experiment, Model, Packed, TrainedModel
from crawl.runs.build import build_model
from crawl.runs.features import Features
from crawl.training import Evaluation, Trainer, Training
from crawl.walks.plan import WalkPlan

FULL = 5_000_000
MOST_GB = 2.0
BATCH = 100
# Rings have a number in the place of #.
RINGS = ["c#ccc({})cc#", "C#CCN({})CC#", "c#cnc({})nc#", "C#CC#{}", "c#nc({})sc#", "C#CCC({})CC#", "C#COC({})C#"]
LINKS = ["C{}", "CC{}", "C(=O)N{}", "N{}", "O{}", "S(=O)(=O)N{}", "C(O){}", "C(C)C{}", "C=C{}", "NC(=O){}", "OCC{}"]
ENDS = ["C", "F", "Cl", "Br", "O", "N", "C#N", "C(=O)O", "OC", "C(F)(F)F", "[N+](=O)[O-]", "c9ccccc9", "C9CC9", "SC"]
EXPERIMENT = Experiment(
    data=Packed(),
    walk=WalkPlan(num_steps=20, num_eval_steps=20, window_size=4),
    model=Model(("walk", "virtual_node"), hidden_channels=32, num_layers=2, pool="sum"),
    training=Training(batch_size=BATCH, max_epochs=1, normalise_targets=True),
    evaluation=Evaluation(num_val_repeats=1, num_test_repeats=1, batch_size=BATCH),
)


def smiles_of(rng: random.Random) -> str:
    """A molecule of 10 to 40 atoms: an end, then links and rings one within the other, then an end."""
    text = "{}"
    for ring in range(1, rng.randint(3, 5)):
        text = text.format(rng.choice(LINKS))
        text = text.format(rng.choice(RINGS).replace("#", str(ring))) if rng.random() < 0.5 else text
    return rng.choice(("C", "N", "O", "CC")) + text.format(rng.choice(ENDS))


def make(path: str, number: int) -> dict[str, Any]:
    """Write a table of molecules; the target is a number that their text has."""
    rng = random.Random(0)
    with open(path, "w") as file:
        file.write("smiles,y\n")
        for _ in range(number):
            smiles = smiles_of(rng)
            file.write(f"{smiles},{smiles.count('N') - 0.5 * smiles.count('O') + 0.01 * len(smiles):.3f}\n")
    return {"number": number}


def rows(path: str, number: int) -> Iterator[list[tuple[str, ...]]]:
    """The SMILES of a table, a thousand at a time."""
    table = islice(iter(Table(path)), number)
    while piece := list(islice(table, 1000)):
        yield [(row.cells["smiles"],) for row in piece]


def parse(path: str, number: int) -> dict[str, Any]:
    """Read molecules and do nothing with them."""
    found = [
        (len(each.sizes), len(each.problems), int(each.sizes[:, 0].sum()))
        for each in map(parse_molecules, rows(path, number))
    ]
    num, bad, atoms = map(sum, zip(*found, strict=True))
    assert bad == 0
    return {"number": num, "atoms": atoms}


def pack(path: str, store: str, jobs: int) -> dict[str, Any]:
    """Read, by several processes, write, and compute the fingerprint."""
    packed = pack_csv(path, store, target_columns="y", shards=4, jobs=jobs)
    size = sum(file.stat().st_size for file in Path(store).iterdir())
    return {"number": len(packed), "bytes": size, "skipped": len(packed.skipped)}


def repeat(source: str, store: str, number: int) -> dict[str, Any]:
    """A store of this many molecules, those of another one again and again."""
    packed: Any = open_packed(source, verify=False)
    with new_folder(store) as folder, ExitStack() as files:
        spool, done = Spool(files, folder), 0
        while done < number:
            for part in packed.store.chunks():
                part = part if len(part) <= number - done else part.subset(range(number - done))
                sizes, edges = part.sizes.t().int().numpy(), part.edge_index.t().int().numpy()
                names = [""] * len(part)
                spool.append(
                    sizes, names, edges=edges, x=part.x.byte().numpy(), edge_attr=part.edge_attr.byte().numpy()
                )
                done += len(part)
                if done == number:
                    break
        order = torch.from_numpy(np.random.default_rng(0).permutation(number))
        parts = torch.split(order, [number - 2 * (number // 10), number // 10, number // 10])
        y = packed.store.y[torch.arange(number) % len(packed)]
        spool.write(
            folder, np.ones(number, bool), name="many", task=packed.task, y=y, sample_weight=None,
            split=Split(*(part.sort().values for part in parts)), shards=Shards(4),
            node_categories=packed.node_categories, edge_categories=packed.edge_categories,
        )  # fmt: skip
    return {"number": number, "bytes": sum(file.stat().st_size for file in Path(store).iterdir())}


def train(store: str, num_steps: int, model: str = "") -> dict[str, Any]:
    """Open a store with all its checksums, make a trainer, and take some steps of its first epoch."""
    began = time.process_time()
    dataset = open_packed(store)
    assert isinstance(dataset.store, PackedStore)
    features = Features.of(dataset)
    network = build_model(EXPERIMENT, features)
    trainer = Trainer(network, dataset, EXPERIMENT.training, EXPERIMENT.evaluation, device="cpu")
    network.train()
    order = trainer._shuffled(1)[: (num_steps + 2) * BATCH]
    batches = list(torch.split(order, BATCH))
    losses = [float(loss) for loss in trainer.steps(batches[:2], 1)]  # compiles
    opened, begin, wall = time.process_time() - began, time.process_time(), time.perf_counter()
    losses += [float(loss) for loss in trainer.steps(batches[2:], 1)]
    cpu, seconds = time.process_time() - begin, time.perf_counter() - wall
    if model:
        TrainedModel(network, EXPERIMENT, features, trainer.scaling, {}).save_pretrained(model, overwrite=True)
    facts = {"number": (len(batches) - 2) * BATCH, "of": len(dataset), "opened_cpu_seconds": opened}
    return {**facts, "work_cpu_seconds": cpu, "work_seconds": seconds, "losses": [losses[0], losses[-1]]}


def read(store: str, number: int) -> dict[str, Any]:
    """Cut random batches from a store and do nothing with them."""
    dataset = open_packed(store, verify=False)
    ids = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))[:number]
    begin = time.process_time()
    for part in torch.split(ids, BATCH):
        dataset.store.batch(part)
    return {"number": len(ids), "work_cpu_seconds": time.process_time() - begin}


class OnDisk(OnDiskDataset):
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
        from torch_geometric.data import Data

        return Data(**{**data, "y": torch.tensor([data["y"]])})


def pyg_pack(path: str, root: str, number: int) -> dict[str, Any]:
    """Read and write them, a thousand at a time."""
    dataset, table = OnDisk(root), islice(iter(Table(path)), number)
    count = 0
    while piece := list(islice(table, 1000)):
        graphs = [molecule_graph(row.cells["smiles"]) for row in piece]
        for graph, row in zip(graphs, piece, strict=True):
            graph.y = float(row.cells["y"])
        dataset.extend(graphs, batch_size=1000)
        count += len(graphs)
    dataset.close()
    return {"number": count, "bytes": sum(file.stat().st_size for file in Path(root).rglob("*") if file.is_file())}


def pyg_read(root: str, number: int) -> dict[str, Any]:
    """Random batches, as a loader of PyG makes them."""
    dataset = OnDisk(root)
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True)
    begin, count = time.process_time(), 0
    for batch in islice(loader, number // BATCH):
        count += batch.num_graphs
    return {"number": count, "work_cpu_seconds": time.process_time() - begin}


def pyg_train(root: str, store: str, num_steps: int) -> dict[str, Any]:
    """The same network on batches of that loader."""
    features = Features.of(open_packed(store, verify=False))
    network = build_model(EXPERIMENT, features)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    begin = wall = 0.0
    for i, batch in enumerate(islice(DataLoader(OnDisk(root), batch_size=BATCH, shuffle=True), num_steps + 2)):
        if i == 2:  # compiled by then
            begin, wall = time.process_time(), time.perf_counter()
        loss = (network(batch) - batch.y.view(-1, 1)).abs().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {
        "number": num_steps * BATCH,
        "work_cpu_seconds": time.process_time() - begin,
        "work_seconds": time.perf_counter() - wall,
    }


def stage(folder: Path, name: str, call: str) -> dict[str, Any]:
    """A function of this file in a process of its own: its memory, its time, and what it says."""
    record, log = folder / f"{name}.json", folder / f"{name}.log"
    if not record.is_file():
        progress(f"{name}: {call}")
        code = (
            "import json, time, many_molecules as m; b, w = m.cpu_seconds(), time.perf_counter(); "
            f"f = m.{call}; t = {{'work_cpu_seconds': m.cpu_seconds() - b}}; "
            "t['work_seconds'] = time.perf_counter() - w; print(); print(json.dumps({**t, **f}))"
        )
        found = watched([sys.executable, "-c", code], log)
        facts = {**found, **json.loads(log.read_text().splitlines()[-1])}
        record.write_text(json.dumps({**facts, "commit": environment([])["Commit"]}))
    result: dict[str, Any] = json.loads(record.read_text())
    return result


def cpu_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def predict(folder: Path, name: str, model: str, given: str, jobs: int) -> dict[str, Any]:
    """`crawl predict`, which is watched as a stage is."""
    record, output = folder / f"{name}.json", folder / f"{name}.csv"
    if not record.is_file():
        command = [sys.executable, "-m", "crawl", "predict", model, given, "-o", str(output)]
        command += ["--jobs", str(jobs), "--device", "cpu"]
        progress(f"{name}: " + " ".join(command))
        found = watched(command, folder / f"{name}.log")
        with open(output) as file:
            found["number"] = sum(1 for _ in file) - 1
        record.write_text(json.dumps({**found, "commit": environment([])["Commit"]}))
    result: dict[str, Any] = json.loads(record.read_text())
    return result


def measure(folder: Path, sizes: dict[str, int]) -> dict[str, Any]:
    """The records of all stages."""
    table, store, model, few = (str(folder / name) for name in ("molecules.csv", "store", "model", "few.csv"))
    root, full, jobs = str(folder / "pyg"), str(folder / "full"), sizes["jobs"]
    found = {"make": stage(folder, "make", f"make({table!r}, {sizes['molecules']})")}
    found["parse"] = stage(folder, "parse", f"parse({table!r}, {sizes['peer']})")
    found["pack"] = stage(folder, "pack", f"pack({table!r}, {store!r}, {jobs})")
    found["read"] = stage(folder, "read", f"read({store!r}, {sizes['peer']})")
    found["train"] = stage(folder, "train", f"train({store!r}, {sizes['steps']}, {model!r})")
    with open(table) as lines, open(few, "w") as file:
        file.writelines(islice(lines, sizes["predicted"] + 1))
    found["predict_table"] = predict(folder, "predict_table", model, few, jobs)
    found["pyg_pack"] = stage(folder, "pyg_pack", f"pyg_pack({table!r}, {root!r}, {sizes['peer']})")
    found["pyg_read"] = stage(folder, "pyg_read", f"pyg_read({root!r}, {sizes['peer']})")
    found["pyg_train"] = stage(folder, "pyg_train", f"pyg_train({root!r}, {store!r}, {sizes['steps']})")
    if sizes["full"] > sizes["molecules"]:
        found["repeat"] = stage(folder, "repeat", f"repeat({store!r}, {full!r}, {sizes['full']})")
        found["full_train"] = stage(folder, "full_train", f"train({full!r}, {sizes['steps']})")
    found["predict"] = predict(folder, "predict", model, store, jobs)
    return found


def markdown(results: dict[str, Any]) -> str:
    """The report."""
    stages, sizes = results["stages"], results["sizes"]
    titles = {
        "parse": "read by rdkit",
        "pack": "packed: read, written, fingerprint",
        "read": "random batches of 100 from the map",
        "train": "training, 100 at a time",
        "predict": "`crawl predict --jobs 1`, start of the process included",
        "pyg_pack": "PyG `OnDiskDataset`: read by the same code, written",
        "pyg_read": "PyG: random batches of 100 from sqlite",
        "pyg_train": "PyG: training, the same network, 100 at a time",
        "repeat": "a store of the full number, of the molecules above again and again",
        "full_train": "training on that store",
    }
    lines = []
    for name, title in titles.items():
        if name not in stages:
            continue
        each = stages[name]
        cpu = each.get("work_cpu_seconds", each["cpu_seconds"])
        memory = " | ".join(f"{each[key] / 1e3:.2f}" for key in ("peak_mb", "peak_anonymous_mb", "peak_mapped_mb"))
        number, seconds = each["number"], each["seconds"]
        lines.append(f"| {title} | {number:,} | {number / cpu:,.0f} | {cpu:,.1f} | {seconds:,.0f} | {memory} |")
    speed = {name: each["number"] / each.get("work_cpu_seconds", each["cpu_seconds"]) for name, each in stages.items()}
    hours = {name: FULL / speed[name] / 3600 for name in ("pack", "predict")}
    times = {name: speed[f"pyg_{name}"] / speed[name] for name in ("pack", "read", "train")}
    size = {name: stages[name]["bytes"] / stages[name]["number"] for name in ("pack", "pyg_pack")}
    remarks = [
        f"Beside PyG on disk, for one molecule: packing takes {times['pack']:.2f} times the CPU time, reading random "
        f"batches {times['read']:.2f} times, a training step {times['train']:.2f} times. The packed store has "
        f"{size['pack']:,.0f} bytes a molecule, sqlite {size['pyg_pack']:,.0f}.",
        f"Extrapolated, not measured: {FULL:,} molecules would take {hours['pack']:.1f} hours of one core to pack, and "
        f"{hours['predict']:.1f} to predict.",
    ]
    if "full_train" in stages:
        peak = max(stages[name]["peak_mb"] for name in ("repeat", "full_train")) / 1e3
        train = stages["full_train"]
        met = "met" if peak <= MOST_GB else "missed"
        remarks.append(
            f"Goal: at most {MOST_GB:g} GB of host memory to write and to train on {FULL:,} molecules. With "
            f"{train['of']:,}: {peak:.2f} GB, {met}. Opening that store, checksums and trainer included, took "
            f"{train['opened_cpu_seconds']:,.0f} CPU seconds."
        )
    else:
        remarks.append(f"The memory of {FULL:,} molecules was not measured in this run.")
    atoms = stages["parse"]["atoms"] / stages["parse"]["number"]
    return "\n".join(
        [
            "# Molecules that need not fit into memory",
            "",
            "Generated by `python benchmarks/many_molecules.py`; do not edit. Raw numbers: `many_molecules.json`.",
            f"{sizes['molecules']:,} synthetic molecules, composed of fragments by a seed, {atoms:.0f} atoms "
            f"each on average; {sizes['peer']:,} of them for PyG. The network has two layers of 32 channels, walks of "
            "20 steps; a prediction is one evaluation.",
            "",
            *(f"- {name}: {value}" for name, value in results["environment"].items()),
            "",
            "| stage | molecules | molecules per CPU second | CPU seconds | seconds of the process | GB at its peak "
            "| anonymous | mapped |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *lines,
            "",
            "Every stage is a process of its own, on one thread. CPU seconds are of the work, without imports and "
            "compilation, except for `crawl predict`; they are given because the machine was shared. Peaks are as in "
            "[big_graph.md](big_graph.md). Speeds on a GPU are not here: none was at hand.",
            "",
            *(line for remark in remarks for line in (remark, "")),
            *([f"Note: {results['note']}", ""] if results["note"] else []),
        ]
    )


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecules", type=float, default=FULL)
    parser.add_argument("--peer", type=float, default=100_000, help="molecules for PyG, and to be read alone")
    parser.add_argument("--predicted", type=float, default=100_000, help="molecules of a table, besides those packed")
    parser.add_argument("--steps", type=int, default=1000, help="training steps of 100 molecules")
    parser.add_argument("--jobs", type=int, default=2, help="processes that pack and predict")
    parser.add_argument(
        "--full", type=float, default=FULL, help="molecules of the store made by repetition; 0 for none"
    )
    parser.add_argument(
        "--folder", type=Path, help="where the files are made; they stay there, and stages are not repeated"
    )
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder to write to")
    parser.add_argument("--note", default="", help="a sentence for the record about how this run was made")
    arguments = parser.parse_args()
    names = ("molecules", "peer", "predicted", "steps", "jobs", "full")
    sizes = {name: int(getattr(arguments, name)) for name in names}
    machine = environment(["torch", "torch_geometric", "rdkit", "numpy"])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if arguments.folder is None else arguments.folder
        folder.mkdir(parents=True, exist_ok=True)
        stages = measure(folder.resolve(), sizes)
    results = {"environment": machine, "sizes": sizes, "stages": stages, "note": arguments.note}
    report = markdown(results)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "many_molecules.md").write_text(report)
    (arguments.out / "many_molecules.json").write_text(json.dumps(results, indent=1) + "\n")
    print(report)


if __name__ == "__main__":
    main()
