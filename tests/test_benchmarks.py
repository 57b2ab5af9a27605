"""The GPU benchmark runs as a whole, in sizes that mean nothing, and stops when one of its parts fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.slow
def test_big_graph_benchmark_with_a_small_graph(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "big_graph.py"), "--nodes", "100", "--edges", "500", "--starts", "20"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    stages = json.loads((tmp_path / "big_graph.json").read_text())["stages"]
    assert len(stages) == 4
    assert all(stage["seconds"] > 0 and stage["peak_mb"] >= stage["before_mb"] > 0 for stage in stages.values())
    assert done.stdout.strip() == (tmp_path / "big_graph.md").read_text().strip()


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
