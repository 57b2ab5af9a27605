"""The published arrangement, transcribed from the paper: what the speed of ours is compared with.

Graphs are collated one by one on the host and moved to the GPU. Walks are taken step by step, each step a set of small
launches, and adjacency is looked up in one row of bits per node. The walk feature tensor X exists, `[W, D, T]`, and
three `Conv1d` run over it; a scatter-mean pools their outputs (paper, section 2 and appendices A.1 to A.5). The
function is the one of `CRaWl(implementation="reference")`, as `check_against_reference` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import graphs as made
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import scatter

from crawl import CRaWl, Graph, Walks
from crawl import sample_walks as our_walks

NUM_PARAMETERS = 497_743  # of the ZINC model in the paper
WINDOW_SIZE, WIDTH, NUM_LAYERS = 8, 147, 3
_WORD = 63  # bits of an int64 that can be added without touching the sign


@dataclass(frozen=True)
class EncodedWalks:
    """Walks as the layers take them.

    Attributes:
        nodes: `[W, T]` int64.
        edges: `[W, T - 1]` int64; columns of `edge_index`.
        encoding: `[W, 2s - 1, T]` float; the identity bits, then the adjacency bits.
    """

    nodes: Tensor
    edges: Tensor
    encoding: Tensor


def sample_walks(batch: Batch, num_steps: int, window_size: int = WINDOW_SIZE) -> EncodedWalks:
    """Non-backtracking walks from every node that has an edge, on a batch whose edges are sorted by source."""
    source, target = batch.edge_index
    num_nodes, device = batch.num_nodes, source.device
    degree = torch.bincount(source, minlength=num_nodes)
    first_arc = degree.cumsum(0) - degree
    adjacency, local = _adjacency_bits(batch)

    here = degree.nonzero().squeeze(1)
    num_walks, num_positions = len(here), num_steps + 1
    nodes = torch.zeros(num_walks, num_positions, dtype=torch.int64, device=device)
    edges = torch.zeros(num_walks, num_steps, dtype=torch.int64, device=device)
    encoding = torch.zeros(num_walks, num_positions, 2 * window_size - 1, device=device)
    draws = torch.randint(2**31, (num_steps, num_walks), device=device)
    nodes[:, 0] = here
    previous = here
    for i in range(num_steps):
        choices = degree[here]
        begin = first_arc[here]
        if i == 0:
            arc = begin + draws[i] % choices
        else:  # leave out one arc; if that was not the way back, take it in the place of the way back
            can_avoid = choices > 1
            arc = begin + draws[i] % torch.where(can_avoid, choices - 1, choices)
            arc = torch.where(can_avoid & (target[arc] == previous), begin + choices - 1, arc)
        previous, here = here, target[arc]
        nodes[:, i + 1] = here
        edges[:, i] = arc
        window = nodes[:, max(i + 1 - window_size, 0) : i + 1].flip(1)  # the latest first
        encoding[:, i + 1, : window.shape[1]] = (window == here.unsqueeze(1)).float()
        if i > 0:
            place = local[window[:, 1:]]
            word = adjacency[here.unsqueeze(1), place // _WORD]
            encoding[:, i + 1, window_size : window_size + place.shape[1]] = ((word >> (place % _WORD)) & 1).float()
    return EncodedWalks(nodes, edges, encoding.transpose(1, 2).contiguous())


def _adjacency_bits(batch: Batch) -> tuple[Tensor, Tensor]:
    """For each node the row of its adjacency matrix within its graph, 63 bits a word, and each node's place there."""
    source, target = batch.edge_index
    num_nodes = batch.num_nodes
    num_words = -(-int(batch.ptr.diff().max()) // _WORD)
    local = torch.arange(num_nodes, device=source.device) - batch.ptr[batch.batch]
    bits = torch.zeros(num_nodes * num_words, dtype=torch.int64, device=source.device)
    bits.scatter_add_(0, source * num_words + local[target] // _WORD, 1 << (local[target] % _WORD))
    return bits.view(num_nodes, num_words), local


class Layer(nn.Module):
    """X → CNN → mean into the nodes → MLP, with a residual."""

    def __init__(self, in_channels: int, channels: int, edge_dim: int, window_size: int) -> None:
        super().__init__()
        num_features = in_channels + edge_dim + 2 * window_size - 1
        kernel_size = window_size + 1
        self.centre = window_size // 2
        self.cnn = nn.Sequential(
            nn.Conv1d(num_features, channels, 1, bias=False),
            nn.Conv1d(channels, channels, kernel_size, groups=channels, bias=False),
            nn.BatchNorm1d(channels),
            nn.ReLU(),
            nn.Conv1d(channels, channels, 1, bias=False),
            nn.ReLU(),
        )
        self.update = nn.Sequential(
            nn.Linear(channels, 2 * channels, bias=False),
            nn.BatchNorm1d(2 * channels),
            nn.ReLU(),
            nn.Linear(2 * channels, channels, bias=False),
        )
        self.residual = nn.Identity() if in_channels == channels else nn.Linear(in_channels, channels, bias=False)

    def forward(self, x: Tensor, edge_attr: Tensor, walks: EncodedWalks) -> Tensor:
        """The new node features, `[N, C]`."""
        steps = F.pad(edge_attr[walks.edges].transpose(1, 2), (1, 0))  # no edge leads to the first node
        features = torch.cat([x[walks.nodes].transpose(1, 2), steps, walks.encoding], dim=1)  # [W, D, T]
        windows = self.cnn(features).transpose(1, 2)
        centres = walks.nodes[:, self.centre : self.centre + windows.shape[1]]
        pooled = scatter(windows.flatten(0, 1), centres.flatten(), dim=0, dim_size=len(x), reduce="mean")
        new_x: Tensor = self.residual(x) + self.update(pooled)
        return new_x


class Network(nn.Module):
    """Layers with a virtual node between them, then the sum over each graph and an MLP; features come one-hot."""

    def __init__(
        self,
        in_channels: int,
        edge_dim: int,
        *,
        channels: int = WIDTH,
        num_layers: int = NUM_LAYERS,
        window_size: int = WINDOW_SIZE,
    ) -> None:
        super().__init__()
        self.channels, self.window_size = channels, window_size
        widths = [in_channels] + num_layers * [channels]
        self.layers = nn.ModuleList(Layer(width, channels, edge_dim, window_size) for width in widths[:-1])
        self.virtual_nodes = nn.ModuleList(
            nn.Sequential(
                nn.Linear(channels, channels, bias=False),
                nn.BatchNorm1d(channels),
                nn.ReLU(),
                nn.Linear(channels, channels, bias=False),
            )
            for _ in range(num_layers - 1)
        )
        self.norm = nn.BatchNorm1d(channels)
        self.head = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, 1))

    def forward(self, batch: Batch, walks: EncodedWalks) -> Tensor:
        """`[G, 1]`."""
        x = batch.x
        state = x.new_zeros(batch.num_graphs, self.channels)
        for i, layer in enumerate(self.layers):
            x = layer(x, batch.edge_attr, walks)
            if i < len(self.virtual_nodes):
                state = self.virtual_nodes[i](state + global_add_pool(x, batch.batch))
                x = x + state[batch.batch]
        out: Tensor = self.head(global_add_pool(self.norm(x).relu(), batch.batch))
        return out


def prepare(graphs: list[Data]) -> list[Data]:
    """Graphs as the arrangement wants them: one-hot features, edges sorted by source."""
    ready = []
    for data in graphs:
        order = torch.argsort(data.edge_index[0] * data.num_nodes + data.edge_index[1])
        ready.append(
            Data(
                x=F.one_hot(data.x.view(-1).long(), made.NUM_ATOM_TYPES).float(),
                edge_index=data.edge_index[:, order].long(),
                edge_attr=F.one_hot(data.edge_attr.view(-1)[order].long(), made.NUM_BOND_TYPES).float(),
                y=data.y.view(1).float(),
            )
        )
    return ready


class Published:
    """The ZINC model with its batches: `step` trains on the next one, `evaluate` predicts it with longer walks."""

    def __init__(self, graphs: list[Data], device: torch.device, batch_size: int = 50, num_steps: int = 50) -> None:
        torch.manual_seed(0)
        self.device, self.num_steps = device, num_steps
        self.model = Network(made.NUM_ATOM_TYPES, made.NUM_BOND_TYPES).to(device)
        assert sum(p.numel() for p in self.model.parameters()) == NUM_PARAMETERS
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.batches = _endless(DataLoader(prepare(graphs), batch_size, shuffle=True))

    def step(self) -> None:
        """One training step: collation, copy to the GPU, walks, forward, backward, Adam."""
        self.model.train()
        batch = next(self.batches).to(self.device)
        output = self.model(batch, sample_walks(batch, self.num_steps)).squeeze(1)
        loss = F.l1_loss(output, batch.y)
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        self.optimiser.step()

    @torch.no_grad()
    def evaluate(self, num_steps: int = 150) -> Tensor:
        """Predictions for one batch."""
        self.model.eval()
        batch = next(self.batches).to(self.device)
        prediction: Tensor = self.model(batch, sample_walks(batch, num_steps)).cpu()
        return prediction

    def sampling(self) -> Callable[[], EncodedWalks]:
        """A call that samples the walks of one batch, which is on the GPU already."""
        batch = next(self.batches).to(self.device)
        return lambda: sample_walks(batch, self.num_steps)


def _endless(loader: DataLoader) -> Iterator[Batch]:
    while True:
        yield from loader


def check_against_reference(device: torch.device) -> str:
    """Compares with `CRaWl(implementation="reference")` for the same weights and walks, and the sampler with ours.

    Raises:
        AssertionError: If something differs.
    """
    torch.manual_seed(0)
    graphs = [*made.molecules(6), made.molecules(1, seed=1)[0]]
    graphs[-1].edge_index = graphs[-1].edge_index[:, torch.randperm(graphs[-1].num_edges)]
    batch = Batch.from_data_list(prepare(graphs)).to(device)
    graph = Graph.from_data(batch)
    ours = CRaWl(
        made.NUM_ATOM_TYPES,
        1,
        hidden_channels=WIDTH,
        num_layers=NUM_LAYERS,
        edge_dim=made.NUM_BOND_TYPES,
        window_size=WINDOW_SIZE,
        virtual_node=True,
        pool="sum",
        implementation="reference",
    ).to(device, torch.float64)
    theirs = Network(made.NUM_ATOM_TYPES, made.NUM_BOND_TYPES).to(device, torch.float64)
    # Theirs lists all layers, then the virtual nodes; ours lists blocks in the order in which they are used.
    own = sorted(ours.state_dict().items(), key=lambda item: ".node." in item[0] or 2 * ("readout" in item[0]))
    names = list(theirs.state_dict())
    theirs.load_state_dict(dict(zip(names, (tensor for _, tensor in own), strict=True)))
    batch.x, batch.edge_attr = batch.x.double(), batch.edge_attr.double()

    walks = our_walks(graph, 20, window_size=WINDOW_SIZE, seed=1)
    encoding = walks.bits().transpose(1, 2).double()
    expected = ours(batch, walks=walks)
    output = theirs(batch, EncodedWalks(walks.nodes.long(), walks.edges.long(), encoding))
    worst = _distance(output, expected)
    for loss in (expected.square().sum(), output.square().sum()):
        torch.autograd.backward(loss)
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    for a, name in zip(theirs.parameters(), (name for name, _ in own if name in gradients), strict=True):
        worst = max(worst, _distance(a.grad, gradients[name]))
    assert worst < 1e-10, f"the published transcription differs from the reference by {worst:.1e}"

    sampled = sample_walks(batch, 40)
    again = Walks.from_nodes(graph, sampled.nodes, WINDOW_SIZE, edges=sampled.edges)  # refuses what is no walk
    assert torch.equal(again.bits(), sampled.encoding.transpose(1, 2).bool())
    went_back = sampled.nodes[:, 2:] == sampled.nodes[:, :-2]
    assert not bool((went_back & (graph.degree[sampled.nodes[:, 1:-1]] > 1)).any())

    return f"outputs and gradients of the published transcription and the reference differ by {worst:.1e} at most"


def _distance(value: Tensor | None, reference: Tensor | None) -> float:
    assert value is not None
    assert reference is not None
    return float(((value - reference).norm() / reference.norm().clamp_min(1e-12)).detach())
