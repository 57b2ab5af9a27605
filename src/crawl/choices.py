"""The words that settings of walks and layers may be, apart from the code that needs torch."""

from typing import Literal

Strategy = Literal["uniform", "non_backtracking", "node2vec"]
Pool = Literal["sum", "mean"]
Head = Literal["mlp", "linear"]
Precision = Literal["tf32", "bf16", "float32"]
Implementation = Literal["fast", "reference"]
Backend = Literal["auto", "reference", "numba", "triton"]
