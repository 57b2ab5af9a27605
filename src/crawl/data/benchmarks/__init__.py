"""The benchmarks of the paper: records of what they are, and a folder that keeps them."""

from crawl.data.benchmarks.record import Benchmark, Statistics
from crawl.data.benchmarks.registry import BENCHMARKS
from crawl.data.benchmarks.root import data_root, find_benchmark, import_benchmark, is_ready, load_benchmark

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "Statistics",
    "data_root",
    "find_benchmark",
    "import_benchmark",
    "is_ready",
    "load_benchmark",
]
