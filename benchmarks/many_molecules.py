"""Five million molecules, from a table to predictions, in little memory: `python benchmarks/many_molecules.py`.

Makes a table of synthetic molecules, valid SMILES composed of fragments at random, and then reads, packs, trains on and
predicts them, each in a process of its own, whose memory is recorded, with that of the processes that it starts, and
which counts the CPU seconds of its work. Beside it, PyG's `OnDiskDataset` (sqlite) does the same work with fewer
molecules. Writes `results/many_molecules.md`, which is also printed, and `results/many_molecules.json`.

`--small FOLDER` only writes a small packed store and a model there, for `many_molecules_gpu.py`, whose record the
report shows if it is beside it. `--report` makes the report of the records that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from measure import HERE, environment, progress, watched
from molecule_stages import BATCH, EXPERIMENT, FULL, MOST_GB, OnDisk, keep, size_of, stage, write_on_disk
from torch_geometric.loader import DataLoader

from crawl.data import open_packed, pack_csv
from crawl.data.packed import PackedStore
from crawl.data.smiles import molecule_graph
from crawl.data.table import Table
from crawl.molecule_arrays import parse_molecules
from crawl.runs import TrainedModel
from crawl.runs.build import build_model
from crawl.runs.features import Features
from crawl.training import Trainer

# Rings have a number in the place of #.
RINGS = ["c#ccc({})cc#", "C#CCN({})CC#", "c#cnc({})nc#", "C#CC#{}", "c#nc({})sc#", "C#CCC({})CC#", "C#COC({})C#"]
LINKS = ["C{}", "CC{}", "C(=O)N{}", "N{}", "O{}", "S(=O)(=O)N{}", "C(O){}", "C(C)C{}", "C=C{}", "NC(=O){}", "OCC{}"]
ENDS = ["C", "F", "Cl", "Br", "O", "N", "C#N", "C(=O)O", "OC", "C(F)(F)F", "[N+](=O)[O-]", "c9ccccc9", "C9CC9", "SC"]


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
    return {"number": len(packed), "bytes": size_of(store), "skipped": len(packed.skipped)}


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


def pyg_pack(path: str, root: str, number: int) -> dict[str, Any]:
    """Read and write them, a thousand at a time."""

    def pieces() -> Iterator[list[Any]]:
        table = islice(iter(Table(path)), number)
        while piece := list(islice(table, 1000)):
            graphs = [molecule_graph(row.cells["smiles"]) for row in piece]
            for graph, row in zip(graphs, piece, strict=True):
                graph.y = float(row.cells["y"])
            yield graphs

    return write_on_disk(root, pieces())


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
        keep(record, found)
    result: dict[str, Any] = json.loads(record.read_text())
    return result


def measure(folder: Path, sizes: dict[str, int]) -> dict[str, Any]:
    """The records of all stages."""
    table, store, model, few = (str(folder / name) for name in ("molecules.csv", "store", "model", "few.csv"))
    root, jobs, peer, steps = str(folder / "pyg"), sizes["jobs"], sizes["peer"], sizes["steps"]
    found = prepare(folder, sizes["molecules"], steps, jobs)
    calls = {
        "parse": f"parse({table!r}, {peer})",
        "read": f"read({store!r}, {peer})",
        "pyg_pack": f"pyg_pack({table!r}, {root!r}, {peer})",
        "pyg_read": f"pyg_read({root!r}, {peer})",
        "pyg_train": f"pyg_train({root!r}, {store!r}, {steps})",
    }
    found |= {name: stage(folder, name, f"many_molecules.{call}") for name, call in calls.items()}
    with open(table) as lines, open(few, "w") as file:
        file.writelines(islice(lines, sizes["predicted"] + 1))
    found["predict_table"] = predict(folder, "predict_table", model, few, jobs)
    found["predict"] = predict(folder, "predict", model, store, jobs)
    return found


def prepare(folder: Path, number: int, steps: int, jobs: int) -> dict[str, Any]:
    """The first stages: a table, a packed store, and a model that was trained on it."""
    table, store, model = (str(folder / name) for name in ("molecules.csv", "store", "model"))
    calls = {
        "make": f"make({table!r}, {number})",
        "pack": f"pack({table!r}, {store!r}, {jobs})",
        "train": f"train({store!r}, {steps}, {model!r})",
    }
    return {name: stage(folder, name, f"many_molecules.{call}") for name, call in calls.items()}


def markdown(results: dict[str, Any], on_gpu: dict[str, Any] | None) -> str:
    """The report; with what was measured on a GPU, if that is there."""
    stages, sizes = results["stages"], results["sizes"]
    number, jobs = stages["pack"]["number"], sizes["jobs"]
    titles = {
        "parse": "read by rdkit",
        "pack": f"packed by {jobs} processes that read, and one that writes",
        "read": "random batches of 100 from the map",
        "train": f"training on the store of {number:,}, 100 at a time",
        "predict": f"the store predicted: `crawl predict --jobs {jobs}`",
        "predict_table": f"a table predicted: `crawl predict --jobs {jobs}`",
        "pyg_pack": "PyG `OnDiskDataset`: read by the same code, written",
        "pyg_read": "PyG: random batches of 100 from sqlite",
        "pyg_train": "PyG: training, the same network, 100 at a time",
    }
    lines = [_row(title, stages[name]) for name, title in titles.items()]
    speed = {name: each["number"] / _cpu(each) for name, each in stages.items()}
    times = {name: speed[f"pyg_{name}"] / speed[name] for name in ("pack", "read", "train")}
    size = {name: stages[name]["bytes"] / stages[name]["number"] for name in ("pack", "pyg_pack")}
    atoms = stages["parse"]["atoms"] / stages["parse"]["number"]
    remarks = [
        f"Beside PyG on disk, for one molecule: packing takes {times['pack']:.2f} times the CPU time, reading random "
        f"batches {times['read']:.2f} times, a training step {times['train']:.2f} times. The packed store has "
        f"{size['pack']:,.0f} bytes a molecule, sqlite {size['pyg_pack']:,.0f}.",
        *(_how_long(what, stages[name]) for name, what in (("pack", "packed"), ("predict", "predicted"))),
        _goal(stages["train"]),
    ]
    commits = sorted({each["commit"] for each in stages.values() if "commit" in each})
    return "\n".join(
        [
            "# Molecules that need not fit into memory",
            "",
            "Generated by `python benchmarks/many_molecules.py`; do not edit. Raw numbers: `many_molecules.json`.",
            f"{number:,} synthetic molecules, composed of fragments by a seed, {atoms:.0f} atoms "
            f"each on average; {sizes['peer']:,} of them for PyG. The network has two layers of 32 channels, walks of "
            "20 steps; a prediction is one evaluation.",
            "",
            *(f"- {name}: {value}" for name, value in results["environment"].items()),
            f"- Commits of the stages: {', '.join(commits)}",
            "",
            "| stage | molecules | molecules per second | per CPU second | CPU seconds | seconds of the process "
            "| GB at its peak | shared pages once | anonymous | mapped |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *lines,
            "",
            "Every stage is a process of its own, on one thread, with those that it starts. Speeds and CPU seconds are "
            "of the work, without imports and compilation, except for `crawl predict`; the machine was shared, so that "
            "CPU seconds say more. Peaks are as in [big_graph.md](big_graph.md); of several processes they are the "
            "sum, in which a page that they share counts for each. *Shared pages once* is that sum with such a page "
            "counted once, as the kernel says every two seconds.",
            "",
            *(line for remark in remarks for line in (remark, "")),
            *([f"Note: {results['note']}", ""] if results["note"] else []),
            *([] if on_gpu is None else _gpu_section(on_gpu)),
        ]
    )


def _cpu(stage: dict[str, Any]) -> float:
    seconds: float = stage.get("work_cpu_seconds", stage["cpu_seconds"])
    return seconds


def _row(title: str, stage: dict[str, Any]) -> str:
    """A row of the table of stages."""
    number, cpu, work = stage["number"], _cpu(stage), stage.get("work_seconds", stage["seconds"])
    names = ("peak_mb", "peak_shared_once_mb", "peak_anonymous_mb", "peak_mapped_mb")
    memory = " | ".join(f"{stage[name] / 1e3:.2f}" if name in stage else "" for name in names)
    speeds = f"{number / work:,.0f} | {number / cpu:,.0f} | {cpu:,.1f}"
    return f"| {title} | {number:,} | {speeds} | {stage['seconds']:,.0f} | {memory} |"


def _how_long(what: str, stage: dict[str, Any]) -> str:
    """How long all molecules took; or would take, if that was not measured."""
    number, hours = stage["number"], _cpu(stage) / 3600
    if number >= FULL:
        minutes = stage.get("work_seconds", stage["seconds"]) / 60
        return f"{number:,} molecules were {what} in {minutes:.0f} minutes, by {hours:.2f} hours of a core."
    hours *= FULL / number
    return f"Extrapolated, not measured: {FULL:,} molecules would be {what} by {hours:.1f} hours of a core."


def _goal(stage: dict[str, Any]) -> str:
    """Whether training on all molecules took little memory."""
    if stage["of"] < FULL:
        return f"The memory of training on {FULL:,} molecules was not measured in this run."
    peak = stage["peak_mb"] / 1e3
    return (
        f"Goal: at most {MOST_GB:g} GB of host memory to train on {FULL:,} molecules. With {stage['of']:,}: {peak:.2f} "
        f"GB, {'met' if peak <= MOST_GB else 'missed'}. Opening that store, checksums and trainer included, took "
        f"{stage['opened_cpu_seconds']:,.0f} CPU seconds."
    )


def _gpu_section(results: dict[str, Any]) -> list[str]:
    """What `many_molecules_gpu.py` recorded."""
    stages, lines, problems = results["stages"], [], []
    for name, each in stages.items():
        if "problem" in each:
            problems.append(f"{name} failed: {each['problem']}.")
        elif name.startswith(("train_", "predict_", "pyg_train_")):
            batch, seconds = each["batch_size"], each["work_seconds"]
            title = {
                "train": f"training, {each.get('how')}, {batch:,} at a time",
                "predict": f"predictions by the library, {batch:,} at a time",
                "pyg": f"PyG: training on the same network, {batch:,} at a time, {each.get('workers')} workers",
            }[name.partition("_")[0]]
            memory = " | ".join(
                f"{each[part] / 1e3:.2f}" if part in each else ""
                for part in ("peak_mb", "peak_anonymous_mb", "peak_mapped_mb", "gpu_mb")
            )
            speeds = f"{each['number'] / seconds:,.0f} | {each['number'] / each['work_cpu_seconds']:,.0f}"
            lines.append(f"| {title} | {each['number']:,} | {speeds} | {seconds:.1f} | {memory} |")
    remarks = []
    if "number" in stages.get("repeat", {}):
        full = stages["repeat"]
        remarks.append(
            f"The store has {full['number']:,} molecules, those of a packed one of {full['of']:,} again and again, and "
            f"{full['bytes'] / 1e9:.2f} GB. It was written in {full['work_seconds']:.0f} seconds, with "
            f"{full['peak_mb'] / 1e3:.2f} GB of memory at the peak."
        )
    if "number" in stages.get("pyg_pack", {}):
        remarks.append(
            f"PyG's data set has the first {stages['pyg_pack']['number']:,} of them, so that its file stays in the "
            "cache of the system."
        )
    trained = [each for name, each in stages.items() if name.startswith("train_") and "number" in each]
    for each in trained:
        size = each["batch_size"]
        names = [name for name in stages if name.startswith(f"pyg_train_{size}_") and "number" in stages[name]]
        if names and each["number"]:
            best = max(stages[name]["number"] / stages[name]["work_seconds"] for name in names)
            times = each["number"] / each["work_seconds"] / best
            remarks.append(f"With {size:,} at a time, training is {times:.1f} times as fast as the best of PyG's rows.")
    if trained and trained[0]["of"] >= FULL:
        most = max(trained, key=lambda each: each["peak_mb"])
        peak, anonymous = most["peak_mb"] / 1e3, most["peak_anonymous_mb"] / 1e3
        remarks.append(
            f"Goal: at most {MOST_GB:g} GB of host memory to train on {FULL:,} molecules, here with the libraries of "
            f"the GPU: {peak:.2f} GB, {'met' if peak <= MOST_GB else 'missed'}; {anonymous:.2f} GB of it are anonymous."
        )
    return [
        "## On a GPU",
        "",
        "By `python benchmarks/many_molecules_gpu.py`; raw numbers: `many_molecules_gpu.json`. The same network.",
        "",
        *(f"- {name}: {value}" for name, value in results["environment"].items()),
        "",
        "| work | molecules | molecules per second | per CPU second | seconds | GB of the host at its peak "
        "| anonymous | mapped | GB of the GPU |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *lines,
        "",
        "All in one process, one after the other, PyG's rows while another process wrote the store. The peak is the "
        "kernel's, which begins anew with each row, compilation and capture included; *anonymous* and *mapped* are the "
        "largest of five looks a second. Speeds are those after some steps, which compile and capture. CPU seconds and "
        "memory are of that process, without PyG's workers.",
        "",
        *(line for remark in (*remarks, *problems) for line in (remark, "")),
    ]


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecules", type=float, default=FULL)
    parser.add_argument("--peer", type=float, default=100_000, help="molecules for PyG, and to be read alone")
    parser.add_argument("--predicted", type=float, default=100_000, help="molecules of a table, besides those packed")
    parser.add_argument("--steps", type=int, default=1000, help="training steps of 100 molecules")
    parser.add_argument("--jobs", type=int, default=2, help="processes that pack and predict")
    parser.add_argument(
        "--folder", type=Path, help="where the files are made; they stay there, and stages are not repeated"
    )
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder to write to")
    parser.add_argument("--note", default="", help="a sentence for the record about how this run was made")
    parser.add_argument("--small", type=Path, help="only write a store and a model into this new folder")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    sizes = {name: int(getattr(arguments, name)) for name in ("molecules", "peer", "predicted", "steps", "jobs")}
    os.environ["OMP_NUM_THREADS"] = "1"  # of stages
    torch.set_num_threads(1)
    machine = environment(["torch", "torch_geometric", "rdkit", "numpy"])
    record, gpu_record = (arguments.out / f"{name}.json" for name in ("many_molecules", "many_molecules_gpu"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if arguments.folder is None else arguments.folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.small is not None:
            prepare(folder, sizes["molecules"], sizes["steps"], sizes["jobs"])
            for name in ("store", "model"):
                shutil.copytree(folder / name, arguments.small / name)
            return
        if not arguments.report:
            results = {"sizes": sizes, "stages": measure(folder, sizes), "note": arguments.note}
            arguments.out.mkdir(parents=True, exist_ok=True)
            record.write_text(json.dumps({"environment": machine, **results}, indent=1) + "\n")
    on_gpu = json.loads(gpu_record.read_text()) if gpu_record.is_file() else None
    report = markdown(json.loads(record.read_text()), on_gpu)
    record.with_suffix(".md").write_text(report)
    print(report)


if __name__ == "__main__":
    main()
