"""The benchmarks run as a whole, in sizes that mean nothing, and stop when one of their parts fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from crawl.nn import BLOCKS

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SECTIONS = {
    "ceilings": ("Ceilings and the floor", "| what | value | unit | formula |"),
    "step": ("ZINC training step", "| step | parameters | time in ms | times ours |"),
    "blocks": (
        "Blocks",
        "| block | parameters | forward, captured | forward and backward, captured | forward, eager |"
        " forward and backward, eager | memory in MB |",
    ),
    "epoch": ("ZINC epoch", "| epoch | time in s | times ours |"),
    "together": (
        "Trainings at the same time",
        "| trainings at a time | epoch of each in s | epochs per s in all | times one alone |",
    ),
    "sampling": (
        "Walk sampling",
        "| graph | call | walks | time in ms | 10⁹ steps/s | output GB/s | of the copy bandwidth |",
    ),
    "profile": ("Profile", "| kernel | a step | µs a step | share |"),
    "precision": ("Precision", "| precision | time in ms | times tf32 |"),
    "shapes": ("Other shapes", "| shape | step | parameters | time in ms | times ours | peak memory in MB |"),
    "memory": ("Memory", "| what grows | step | 5 | 10 | straight line |"),
    "compile": ("Compilation", "|  | first step in s | ten steps in s | whole process in s |"),
}


@pytest.mark.slow
def test_gpu_benchmark_in_smoke_mode(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"CRAWL_COMMIT": "0123abcd", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(BENCHMARKS / "gpu"), "--smoke", "--data", str(tmp_path), "--out", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    results = json.loads((tmp_path / "gpu.json").read_text())
    assert {name: section.get("problem") for name, section in results["sections"].items()} == dict.fromkeys(SECTIONS)
    assert all(section["rows"] for section in results["sections"].values())
    assert [row[0] for row in results["sections"]["blocks"]["rows"]] == list(BLOCKS)
    assert results["environment"]["Commit"] == "0123abcd"

    report = (tmp_path / "gpu.md").read_text()
    assert done.stdout.strip() == report.strip()
    assert "Error:" not in report  # in a cell, where one of several contestants failed
    assert "| work | goal | measured |  |" in report
    for title, header in SECTIONS.values():
        _, _, section = report.partition(f"## {title}\n")
        assert header in section.partition("\n## ")[0]


def run_benchmark(name: str, out: Path, *flags: str) -> tuple[dict, str]:
    """What a benchmark records, and its report, which it also prints."""
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *flags, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = (out / f"{name}.md").read_text()
    assert done.stdout.strip() == report.strip()
    return json.loads((out / f"{name}.json").read_text()), report


@pytest.mark.slow
def test_big_graph_benchmark_with_a_small_graph(tmp_path: Path) -> None:
    sizes = ("--nodes", "500", "--starts", "20", "--labelled", "100", "--embedded", "60", "--folder", str(tmp_path))
    results, report = run_benchmark("big_graph", tmp_path, *sizes)
    stages = results["stages"]
    assert list(stages) == ["imports", "build", "check", "walk", "train", "embed", "compare"]
    for stage in stages.values():
        assert stage["seconds"] > 0
        assert stage["peak_mb"] >= 0.9 * stage["peak_anonymous_mb"] > 0
    assert stages["embed"]["shape"] == [60, 32]
    assert stages["compare"]["error"] < 1e-5
    assert "A directed graph of 500 nodes and 5,000 edges" in report
    again, _ = run_benchmark("big_graph", tmp_path, *sizes)
    assert again["stages"] == stages  # what is done is not repeated


@pytest.mark.slow
def test_many_molecules_benchmark_with_few(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    sizes = ("--molecules", "600", "--peer", "200", "--predicted", "100", "--steps", "2", "--jobs", "2")
    results, report = run_benchmark("many_molecules", tmp_path, *sizes, "--folder", str(tmp_path))
    stages = results["stages"]
    assert {name: stages[name]["number"] for name in ("pack", "predict", "predict_table", "pyg_pack")} == {
        "pack": 600, "predict": 600, "predict_table": 100, "pyg_pack": 200
    }  # fmt: skip
    assert stages["predict"]["processes"] > 2
    assert stages["predict"]["peak_mb"] > stages["predict"]["peak_shared_once_mb"] > 0
    assert report.count("Extrapolated, not measured") == 2
    assert "On a GPU" not in report

    command = [sys.executable, str(BENCHMARKS / "many_molecules_gpu.py"), "--data", str(tmp_path), "--device", "cpu"]
    command += ["--out", str(tmp_path), "--molecules", "2000", "--peer", "100", "--seconds", "0.2", "--workers", "0"]
    command += ["--batch-sizes", "20", "--predict-sizes", "100"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    again, report = run_benchmark("many_molecules", tmp_path, "--report")
    assert again == results
    assert "The store has 2,000 molecules, those of a packed one of 600 again and again" in report
    on_gpu = json.loads((tmp_path / "many_molecules_gpu.json").read_text())["stages"]
    assert list(on_gpu) == ["warm_train_20", "pyg_pack", "pyg_train_20_0", "repeat", "train_20", "predict_100"]
    assert not any("problem" in stage for stage in on_gpu.values())
    assert on_gpu["train_20"]["of"] == 2000
    assert on_gpu["train_20"]["number"] > 0


@pytest.mark.slow
def test_closed_batches_benchmark_with_small_graphs(tmp_path: Path) -> None:
    sizes = ("--sizes", "100", "200", "--full", "100", "--refused", "1e6")
    results, report = run_benchmark("closed_batches", tmp_path, *sizes)
    assert list(results["closed"]) == ["100", "200"]
    assert results["closed"]["200"]["train"]["memory_mb"] > 0
    assert "1,000,000 nodes would take about" in report
    assert (tmp_path / "closed_batches.png").stat().st_size > 10_000


def test_the_model_of_several_gpus_adds_what_it_assumes(tmp_path: Path) -> None:
    results, report = run_benchmark("scaling", tmp_path, "--eager-update-us", "0", "--fixed-share", "0.5")
    assert "This is a model, not a measurement." in report
    zinc, molpcba = results["works"]
    one, two, *_, many = zinc["modelled"]
    assert (one["weak"]["efficiency"], one["strong"]["speed_up"], one["all_reduce_s"]) == (1, 1, 0)
    num_bytes = 4 * (497_743 + 2)
    assert two["all_reduce_s"] == pytest.approx(num_bytes / 300e9 + 2 * 2e-6)  # 2 (n-1)/n is 1
    assert two["strong"]["step_s"] == pytest.approx(0.75 * zinc["seconds"] + two["all_reduce_s"])
    within, between = 2 * 7 / 8 * num_bytes / 300e9 + 14 * 2e-6, 2 * 7 / 8 * num_bytes / 8 / 40e9 + 14 * 5e-6
    assert many["all_reduce_s"] == pytest.approx(within + between)
    assert many["strong"] is None  # 64 GPUs, and 50 graphs
    assert molpcba["modelled"][-1]["strong"]["share"] == 2


def test_planted_classes_take_the_edges_and_a_feature(monkeypatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import planted

    edges = np.concatenate(list(planted.edge_blocks(1000)))
    x = np.concatenate(list(planted.features(1000)))
    assert edges.shape == (10_000, 2)
    assert np.bincount(edges[:, 0], minlength=1000).min() >= 4  # no walk ends
    found = planted.classes(np.arange(1000), x, 1000)
    assert np.array_equal(found % 2, x[:, 0] > 0)
    pairs = {tuple(edge) for edge in edges.tolist()}
    has_partners = np.bincount([u for u, v in pairs if u != v and (v, u) in pairs], minlength=1000) >= 4
    assert has_partners[found >= 2].all()
    assert has_partners[found < 2].mean() < 0.1


@pytest.mark.parametrize("fails_in_epoch", [1, 2])
def test_trainings_at_the_same_time_stop_if_one_fails(tmp_path: Path, monkeypatch, fails_in_epoch: int) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from gpu.bench import Bench
    from gpu.sections.together import train_together

    class Trainer:
        def __init__(self, seed: int) -> None:
            self.seed = seed

        def epochs(self):
            for epoch in range(1, 100):
                if self.seed == 1 and epoch == fails_in_epoch:
                    raise MemoryError("of the second")
                yield {"seconds": 0.5}

    monkeypatch.setattr(Bench, "trainer", lambda self, model, seed: Trainer(seed))
    bench = Bench(torch.device("cpu"), tmp_path, smoke=True)
    with pytest.raises(MemoryError, match="of the second"):
        train_together(bench, 3, num_epochs=10)
    seconds, total_s = train_together(bench, 1, num_epochs=10)
    assert seconds == [0.5] * 10
    assert 0 < total_s < 5
