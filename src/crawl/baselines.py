"""Message-passing networks to compare with, built from PyG's layers, with CRaWl's encoders and readout."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINConv,
    GINEConv,
    PNAConv,
    ResGatedGraphConv,
    SAGEConv,
)

from crawl.choices import Head, Pool
from crawl.graph import Graph, weights_differ
from crawl.nn.encoders import Dense, Encoder
from crawl.nn.norm import BatchNorm
from crawl.nn.readout import Readout
from crawl.ops.segments import Rows, Segments

if TYPE_CHECKING:
    from torch_geometric.data import Data

WIDTH_STEP = 4  # widths are multiples of it: the number of heads of `gat`


class MessagePassing(nn.Module):
    """A message-passing network: no stronger than 1-WL, whichever its layers.

    Layers of the given kind → BatchNorm → ReLU with residuals, then CRaWl's readout.

    Args:
        layer: `gcn`, `gin`, `gine` (GIN that sees edge features), `gat` (four heads), `sage`, `gated_gcn` or `pna`.
            `gcn`, `gin` and `sage` do not see edge features.
        in_channels: The width of the node features `x`, or an encoder for them.
        out_channels: The width of the answer.
        hidden_channels: The width of the layers.
        num_layers: The number of layers.
        edge_dim: The width of the edge features, or an encoder for them; with 1, data without `edge_attr` gets ones.
        pool: `sum` or `mean` over the nodes of a graph; None for one answer per node.
        head: `mlp` or `linear`.
        dropout: The dropout rate before the head.
        mean_log_degree: For `pna`, the mean of log(degree + 1) over the nodes of the training graphs.

    Raises:
        ValueError: For an unknown layer, or a width that it cannot have.
    """

    def __init__(
        self,
        layer: str,
        in_channels: int | Encoder,
        out_channels: int,
        *,
        hidden_channels: int = 128,
        num_layers: int = 4,
        edge_dim: int | Encoder = 1,
        pool: Pool | None = "mean",
        head: Head = "mlp",
        dropout: float = 0.0,
        mean_log_degree: float = 1.0,
    ) -> None:
        super().__init__()
        if layer not in LAYERS:
            raise ValueError(f"layer must be one of {', '.join(LAYERS)}, not {layer!r}.")
        if layer == "gat" and hidden_channels % WIDTH_STEP:
            raise ValueError(f"hidden_channels of gat must be a multiple of {WIDTH_STEP}, not {hidden_channels}.")
        self.node_encoder = Dense(in_channels) if isinstance(in_channels, int) else in_channels
        self.edge_encoder = Dense(edge_dim) if isinstance(edge_dim, int) else edge_dim
        self.sees_edges = layer in SEES_EDGES
        self.embed = nn.Linear(self.node_encoder.out_channels, hidden_channels)
        edge_channels = self.edge_encoder.out_channels
        self.convs = nn.ModuleList(LAYERS[layer](hidden_channels, edge_channels) for _ in range(num_layers))
        for conv in self.convs:
            if isinstance(conv, PNAConv):
                conv.aggr_module.avg_deg_log.fill_(mean_log_degree)
        self.norms = nn.ModuleList(BatchNorm(hidden_channels) for _ in range(num_layers))
        self.readout = Readout(hidden_channels, out_channels, pool=pool, head=head, dropout=dropout)

    def forward(self, data: Data, seed: int | None = None, num_steps: int | None = None) -> Tensor:
        """`[G, out_channels]`, or `[N, out_channels]` when the model answers per node. It draws no walks."""
        del seed, num_steps  # one way to call every model
        if weights_differ(data.edge_weight):
            raise ValueError(
                "Message-passing networks here do not use edge_weight: make it a feature (edge_attr), or take it away "
                "(del data.edge_weight)."
            )
        graph = Graph.from_data(data)
        like = self.readout.norm.weight
        x = self.embed(self.node_encoder(data.x, graph.num_nodes, like))
        inputs: dict[str, Any] = {"edge_index": data.edge_index.to(like.device)}
        if self.sees_edges:
            inputs["edge_attr"] = self.edge_encoder(data.edge_attr, graph.num_edges, like)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(conv(x, **inputs)).relu()
        batch, ptr = graph.batch.to(like.device), graph.graph_ptr.to(like.device)
        out: Tensor = self.readout(x, Segments(batch, Rows(len(batch)), Rows(len(ptr) - 1), ptr))
        return out


GIN = partial(MessagePassing, "gin")  # the usual one to compare with: as strong as message passing gets


def _mlp(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(channels, channels), BatchNorm(channels), nn.ReLU(), nn.Linear(channels, channels))


def _pna(channels: int, edge_channels: int) -> nn.Module:
    conv: nn.Module = PNAConv(
        channels,
        channels,
        aggregators=["mean", "min", "max", "std"],
        scalers=["identity", "amplification", "attenuation"],
        deg=torch.tensor([0, 1], device="cpu"),  # what it is used for is set from the data; read, so never on meta
        edge_dim=edge_channels,
    )
    return conv


# From the width of nodes and of edges to a layer.
LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "gcn": lambda channels, _: GCNConv(channels, channels),
    "gin": lambda channels, _: GINConv(_mlp(channels), train_eps=True),
    "gine": lambda channels, edge: GINEConv(_mlp(channels), train_eps=True, edge_dim=edge),
    "gat": lambda channels, edge: GATConv(channels, channels // WIDTH_STEP, heads=WIDTH_STEP, edge_dim=edge),
    "sage": lambda channels, _: SAGEConv(channels, channels),
    "gated_gcn": lambda channels, edge: ResGatedGraphConv(channels, channels, edge_dim=edge),
    "pna": _pna,
}
SEES_EDGES = {"gine", "gat", "gated_gcn", "pna"}
