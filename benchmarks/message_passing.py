"""Message-passing networks on ZINC, of PyG's layers and of our blocks: GINE and GatedGCN of CRaWl's size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import TypeVar

import graphs as made
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch
from torch_geometric.nn import GINEConv, ResGatedGraphConv, global_add_pool

from crawl import Network as OurNetwork
from crawl import OneHot

BUDGET = 500_000

MakeConv = Callable[[int], nn.Module]
Model = TypeVar("Model", bound=nn.Module)


def gine_conv(width: int) -> nn.Module:
    """GIN with edge features; its MLP has one hidden layer."""
    mlp = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width))
    return GINEConv(mlp, train_eps=True)


def gated_conv(width: int) -> nn.Module:
    """The residual gated layer of GatedGCN, with edge features."""
    return ResGatedGraphConv(width, width, edge_dim=width)


LAYERS: dict[str, MakeConv] = {"GINE": gine_conv, "GatedGCN": gated_conv}
BLOCKS = {"GINE": "gine", "GatedGCN": "gated_gcn"}  # ours; this GatedGCN has a state of each edge, PyG's has not


class Network(nn.Module):
    """Embeddings of atoms and bonds, layers with batch norm, ReLU and a residual, the sum over each graph, an MLP."""

    def __init__(self, make_conv: MakeConv, width: int, num_layers: int) -> None:
        super().__init__()
        self.atoms = nn.Embedding(made.NUM_ATOM_TYPES, width)
        self.bonds = nn.Embedding(made.NUM_BOND_TYPES, width)
        self.convs = nn.ModuleList(make_conv(width) for _ in range(num_layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(num_layers))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: Batch) -> Tensor:
        """`[G, 1]`."""
        x, bonds = self.atoms(batch.x.view(-1)), self.bonds(batch.edge_attr.view(-1))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(conv(x, batch.edge_index, bonds)).relu()
        out: Tensor = self.head(global_add_pool(x, batch.batch, batch.num_graphs))
        return out


def with_budget(make_conv: MakeConv, num_layers: int, budget: int = BUDGET) -> tuple[Network, int, int]:
    """The network of PyG's layers with the number of parameters nearest to the budget, its width, and that number."""
    return _nearest(lambda width: Network(make_conv, width, num_layers), budget)


def ours_with_budget(kind: str, num_layers: int, budget: int = BUDGET) -> tuple[OurNetwork, int, int]:
    """The same for a network of our blocks, `GINE` or `GatedGCN`; its width is a multiple of 4, so rows are aligned."""
    return _nearest(
        lambda width: OurNetwork(
            OneHot(made.NUM_ATOM_TYPES),
            1,
            layer=(BLOCKS[kind],),
            num_layers=num_layers,
            hidden_channels=width,
            edge_dim=OneHot(made.NUM_BOND_TYPES),
            pool="sum",
        ),
        budget,
        multiple=4,
    )


def training_step(model: Network, batches: list[Batch]) -> Callable[[], None]:
    """A call that trains on the next of these batches, which are on the device of the model."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    endless = cycle(batches)
    model.train()

    def step() -> None:
        batch = next(endless)
        loss = F.l1_loss(model(batch).squeeze(1), batch.y.view(-1))
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()

    return step


def _nearest(make: Callable[[int], Model], budget: int, multiple: int = 1) -> tuple[Model, int, int]:
    low, high = 1, 4096 // multiple
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _size(make, multiple * middle) <= budget else (low, middle)
    width = min((multiple * low, multiple * high), key=lambda w: abs(_size(make, w) - budget))
    torch.manual_seed(0)
    return make(width), width, _size(make, width)


def _size(make: Callable[[int], Model], width: int) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in make(width).parameters())
