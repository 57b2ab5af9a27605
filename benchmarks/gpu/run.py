"""The run: section after section, each within its time, and the files after each."""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import published
import torch
from measure import HERE, environment, error_line, progress

from gpu.bench import Bench
from gpu.report import Section, markdown
from gpu.sections.blocks import blocks
from gpu.sections.ceilings import ceilings
from gpu.sections.compilation import compilation, first_step
from gpu.sections.epoch import epoch
from gpu.sections.memory import memory
from gpu.sections.other_shapes import other_shapes
from gpu.sections.precision import precision
from gpu.sections.profile import profile
from gpu.sections.sampling import sampling
from gpu.sections.step import step
from gpu.sections.together import together

VERSIONS_OF = ["torch", "triton", "torch-geometric", "numpy"]
SECTION_LIMIT_S, RUN_LIMIT_S = 150, 560

SECTIONS: dict[str, Callable[[Bench], Section]] = {
    "ceilings": ceilings,
    "step": step,
    "blocks": blocks,
    "epoch": epoch,
    "together": together,
    "sampling": sampling,
    "profile": profile,
    "precision": precision,
    "shapes": other_shapes,
    "memory": memory,
    "compile": compilation,
}


def main() -> None:
    arguments = parsed_arguments()
    bench = Bench(torch.device("cpu" if arguments.smoke else "cuda"), arguments.data, arguments.smoke)
    if arguments.first_step:
        print(json.dumps(first_step(bench)))
        return
    if arguments.smoke:
        progress(published.check_against_reference(bench.device))
    arguments.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"environment": facts(bench.device), "smoke": arguments.smoke}
    results |= {"began": time.time(), "sections": {}}
    if arguments.resume:
        results = json.loads((arguments.out / "gpu.json").read_text())
    bench.results = results["sections"]
    for name in arguments.only or SECTIONS:
        if name in bench.results:
            continue
        passed = time.time() - results["began"]
        progress(f"{name} ({passed:.0f} s)")
        bench.results[name] = outcome(SECTIONS[name], bench, min(SECTION_LIMIT_S, RUN_LIMIT_S - passed))
        (arguments.out / "gpu.json").write_text(json.dumps(results, indent=1) + "\n")
        (arguments.out / "gpu.md").write_text(markdown(results))
        release_memory(bench.device)
    print(markdown(results))


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed and memory on one NVIDIA GPU.")
    parser.add_argument("--data", type=Path, default=HERE, help="the folder with zinc12k.npz")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder to write to")
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="run this section; may be repeated")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on a CPU, to try the script")
    parser.add_argument("--resume", action="store_true", help="keep the sections that OUT/gpu.json has")
    parser.add_argument("--first-step", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


class OutOfTime(BaseException):
    """A section has taken too long. Not an `Exception`: no row of it may take this for an error of its own."""


def outcome(section: Callable[[Bench], Section], bench: Bench, limit_s: float) -> dict[str, Any]:
    """What `gpu.json` says of a section: all it found, or its problem, and how long it took."""
    began = time.perf_counter()
    try:
        found = asdict(limited(section, bench, limit_s))
    except (Exception, OutOfTime) as error:
        progress("".join(traceback.format_exception(error)))
        found = {"problem": error_line(error)}
    return found | {"took_s": time.perf_counter() - began}


def limited(section: Callable[[Bench], Section], bench: Bench, seconds: float) -> Section:
    """The section, or `OutOfTime` if it takes longer."""
    if seconds < 1:
        raise OutOfTime("not run: the time of the whole run is over")

    def stop(*_: Any) -> None:
        raise OutOfTime(f"stopped after {seconds:.0f} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(int(seconds))
    try:
        return section(bench)
    finally:
        signal.alarm(0)


def release_memory(device: torch.device) -> None:
    """Free what a section has left. A GPU that an error has made unusable is only usable in a fresh process."""
    gc.collect()
    if device.type == "cpu":
        return
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except Exception as error:
        progress(f"The GPU is lost ({error_line(error)}): going on in a fresh process.")
        more = [] if "--resume" in sys.argv else ["--resume"]
        os.execv(sys.executable, [sys.executable, *sys.argv, *more])


def facts(device: torch.device) -> dict[str, str]:
    """The machine, its GPU first."""
    found = environment(VERSIONS_OF)
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        name = f"{gpu.name}, {gpu.multi_processor_count} multiprocessors, {gpu.total_memory / 1e9:.0f} GB"
        found = {"GPU": f"{name}, CUDA {torch.version.cuda}", **found}
    else:
        found = {"GPU": "none: a smoke run, whose numbers mean nothing", **found}
    return found
