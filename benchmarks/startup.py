"""How long `crawl` takes to answer what needs no computation: python benchmarks/startup.py."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

NUM_TIMES = 9
LINES = (
    "--version",
    "--help",
    "train zinc --help",
    "train csl --training.lrr 1",
    "train csl --training.lr -1",
    "train zinc --data.split nonsense",
    "predict RUN missing.csv",
)


def seconds(words: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "crawl", *words.split()], capture_output=True, check=False)
    return time.perf_counter() - began


def main() -> None:
    print("| command | median, s | slowest, s |\n|---|---|---|")
    for words in LINES:
        times = [seconds(words) for _ in range(NUM_TIMES)]
        print(f"| `crawl {words}` | {statistics.median(times):.2f} | {max(times):.2f} |", flush=True)


if __name__ == "__main__":
    main()
