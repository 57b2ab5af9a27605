"""The first use, with nothing compiled, and the second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from measure import HERE, progress

from gpu.bench import Bench
from gpu.report import Section
from gpu.timing import synchronize


def compilation(bench: Bench) -> Section:
    """The first use, with nothing compiled, and the second."""
    rows, raw = [], {}
    command = [sys.executable, str(HERE / "gpu"), "--first-step", "--data", str(bench.data)]
    command += ["--smoke"] if bench.smoke else []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold Triton cache", "warm Triton cache"):
            progress(f"  {name}")
            began = time.perf_counter()
            run = subprocess.run(
                command, capture_output=True, text=True, check=False, env={**os.environ, "TRITON_CACHE_DIR": folder}
            )
            if run.returncode:
                raise RuntimeError((run.stderr.strip().splitlines() or ["no message"])[-1])
            record = raw[name] = json.loads(run.stdout.splitlines()[-1])
            record["process_s"] = time.perf_counter() - began
            rows.append([name, *(f"{record[key]:.2f}" for key in ("first_step_s", "ten_steps_s", "process_s"))])
        raw["cache_files"] = sum(path.is_file() for path in Path(folder).rglob("*"))
    first = raw["cold Triton cache"]["first_step_s"]
    text = [
        "A fresh process each: from data on the device and a CUDA context to the end of the first ZINC step (of the",
        f"first ten; of the whole process, imports included). The cache then held {raw['cache_files']} files.",
    ]
    header = ["", "first step in s", "ten steps in s", "whole process in s"]
    goals = [("first use", "< 60 s", f"{first:.1f} s", first < 60)]
    return Section("Compilation", text, header, rows, raw, goals)


def first_step(bench: Bench) -> dict[str, float]:
    """Seconds to the end of the first training step and of the tenth, in this process; for `compilation`."""
    assert len(bench.zinc)
    matrix = torch.randn(64, 64, device=bench.device)
    assert float((matrix @ matrix).sum()) != 0  # the context and the libraries are there
    began = time.perf_counter()
    run = bench.ours()
    run()
    synchronize(bench.device)
    first = time.perf_counter() - began
    for _ in range(9):
        run()
    synchronize(bench.device)
    return {"first_step_s": first, "ten_steps_s": time.perf_counter() - began}
