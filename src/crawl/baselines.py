"""Message-passing networks to compare with, built from PyG's layers, with CRaWl's encoders and readout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch_geometric.nn import GINConv, GINEConv

from crawl.graph import Graph
from crawl.nn.encoders import Dense, Encoder
from crawl.nn.membership import Membership
from crawl.nn.norm import BatchNorm
from crawl.nn.readout import Head, Pool, Readout

if TYPE_CHECKING:
    from torch_geometric.data import Data


class GIN(nn.Module):
    """A graph isomorphism network: as strong as message passing gets, which is 1-WL.

    Layers GINConv (GINEConv with edge features) → BatchNorm → ReLU with residuals, then CRaWl's readout.

    Args:
        in_channels: The width of the node features `x`, or an encoder for them.
        out_channels: The width of the answer.
        hidden_channels: The width of the layers.
        num_layers: The number of layers.
        edge_dim: The width of the edge features, or an encoder for them; 0 for none.
        pool: `sum` or `mean` over the nodes of a graph; None for one answer per node.
        head: `mlp` or `linear`.
        dropout: The dropout rate before the head.
    """

    def __init__(
        self,
        in_channels: int | Encoder,
        out_channels: int,
        *,
        hidden_channels: int = 128,
        num_layers: int = 4,
        edge_dim: int | Encoder = 0,
        pool: Pool | None = "mean",
        head: Head = "mlp",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.node_encoder = Dense(in_channels) if isinstance(in_channels, int) else in_channels
        self.edge_encoder = Dense(edge_dim) if isinstance(edge_dim, int) else edge_dim
        self.embed = nn.Linear(self.node_encoder.out_channels, hidden_channels)
        edge_channels = self.edge_encoder.out_channels
        self.convs = nn.ModuleList(
            GINEConv(_mlp(hidden_channels), train_eps=True, edge_dim=edge_channels)
            if edge_channels
            else GINConv(_mlp(hidden_channels), train_eps=True)
            for _ in range(num_layers)
        )
        self.norms = nn.ModuleList(BatchNorm(hidden_channels) for _ in range(num_layers))
        self.readout = Readout(hidden_channels, out_channels, pool=pool, head=head, dropout=dropout)

    def forward(self, data: Data, seed: int | None = None, num_steps: int | None = None) -> Tensor:
        """`[G, out_channels]`, or `[N, out_channels]` when the model answers per node. It draws no walks."""
        del seed, num_steps  # one way to call every model
        graph = Graph.from_data(data)
        like = self.readout.norm.weight
        x = self.embed(self.node_encoder(data.x, graph.num_nodes, like))
        inputs: list[Tensor] = [data.edge_index.to(like.device)]
        if self.edge_encoder.out_channels:
            inputs.append(self.edge_encoder(data.edge_attr, graph.num_edges, like))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(conv(x, *inputs)).relu()
        out: Tensor = self.readout(x, Membership(graph.batch.to(like.device), graph.graph_ptr.to(like.device)))
        return out


def _mlp(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(channels, channels), BatchNorm(channels), nn.ReLU(), nn.Linear(channels, channels))
