"""The words that settings of walks and layers may be, apart from the code that needs torch."""

from typing import Literal

Strategy = Literal[
    "uniform", "non_backtracking", "node2vec", "min_degree", "min_degree_non_backtracking", "depth_first", "restart"
]
Pool = Literal["sum", "mean"]
Head = Literal["mlp", "linear"]
NormName = Literal["batch", "layer", "none"]
PairScore = Literal["dot", "bilinear", "mlp"]
Precision = Literal["tf32", "bf16", "float32"]
Implementation = Literal["fast", "reference"]
BlockName = Literal[
    "walk",
    "walk_edges",
    "gru",
    "virtual_node",
    "attention",
    "feed_forward",
    "edge_update",
    "appnp",
    "gcn",
    "gcn2",
    "gin",
    "gine",
    "gat",
    "sage",
    "gated_gcn",
    "pna",
]
WITH_CNN = ("walk", "walk_edges")  # the blocks that have a CNN along walks
WITH_NORM = ("gcn", "gin", "gine", "gat", "sage", "gated_gcn", "pna")  # the blocks of which the norm may be any
WITH_WALKS = (*WITH_CNN, "gru")  # the blocks that use walks
OF_BLOCKS = {  # the settings of a network that only some blocks use
    **dict.fromkeys(("kernel_size", "padding", "implementation"), WITH_CNN),
    **dict.fromkeys(("identity", "adjacency"), WITH_WALKS),
    "num_heads": ("attention", "gat"),
    "residual": WITH_NORM,
    "mean_log_degree": ("pna",),
}
Batches = Literal["full", "closed"]
Backend = Literal["auto", "reference", "numba", "triton"]

BY_FILE = "files"  # the split of molecules in three files
