"""What a network takes: graphs of PyG in; a batch with walks, and the state that its first block sees, out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from crawl.checks import MAX_CHANNELS, check_type, whole_number
from crawl.edge_lists import weights_differ
from crawl.graph import Graph
from crawl.nn.batch import Batch
from crawl.nn.block import State
from crawl.nn.blocks import LayerPart, has, takes
from crawl.nn.dropout import Dropout
from crawl.nn.encoders import Dense, Encoder, OneHot, WithEncodings
from crawl.nn.graph_features import GraphFeatures
from crawl.nn.linear import Linear
from crawl.nn.norm import BatchNorm
from crawl.nn.pair_readout import PairReadout
from crawl.nn.readout import Readout
from crawl.ops.segments import Rows
from crawl.tensor_checks import plain_tensor
from crawl.walks.plan import WalkPlan
from crawl.walks.walks import Walks

if TYPE_CHECKING:
    from torch_geometric.data import Data


class NetworkInputs(nn.Module):
    """The part of a network that makes the batch and the first state: encoders, walks by its plan, linear maps."""

    walk_plan: WalkPlan | None
    blocks: nn.ModuleList
    readout: Readout | PairReadout

    def __init__(
        self,
        in_channels: int | Encoder,
        edge_dim: int | Encoder | None,
        parts: Sequence[LayerPart],
        channels: int,
        graph_channels: int | GraphFeatures = 0,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.graph_features = _as_graph_features(graph_channels)
        self.input_dropout = Dropout(input_dropout)
        self.hidden_channels, self.ignores_edges = channels, edge_dim is None
        self.node_encoder = _as_encoder("in_channels", in_channels, 1)
        self.edge_encoder = _as_encoder("edge_dim", 0 if edge_dim is None else edge_dim, 0)
        self.node_channels, self.edge_channels = self.node_encoder.out_channels, self.edge_encoder.out_channels
        self.node_norm, self.edge_norm = _norm_of(self.node_encoder), _norm_of(self.edge_encoder)
        self.node_embedding: Linear | None = None
        self.edge_embedding: Linear | None = None
        self.changes_edges, self.can_see_edges = (
            any(has(part, name) for part in parts) for name in ("changes_edges", "sees_edges")
        )
        if self.changes_edges:
            self.edge_embedding = Linear(self.edge_channels, channels) if self.edge_channels else None
            self.edge_channels = channels
        if self.changes_edges or not takes(parts[:1], self.node_channels):
            self.node_embedding = Linear(self.node_channels, channels)
            self.node_channels = channels

    @property
    def passes_messages(self) -> bool:
        """Whether a block sums over the edges of each node."""
        return any(block.passes_messages for block in self.blocks)

    def sample_walks(
        self, graph: Graph, num_steps: int | None = None, seed: int | None = None, graph_keys: Tensor | None = None
    ) -> Walks:
        """Walks as `forward` draws them, in the mode the model is in; the arguments are those of `WalkPlan.sample`.

        Raises:
            ValueError: If no block of the network uses walks.
        """
        if self.walk_plan is None:
            raise ValueError("No block of this network uses walks.")
        return self.walk_plan.sample(
            graph, is_training=self.training, num_steps=num_steps, seed=seed, graph_keys=graph_keys
        )

    def check_walk_arguments(
        self, data: Data | Batch, walks: Walks | None, num_steps: int | None, seed: int | None
    ) -> None:
        """Refuses arguments of `forward` that would have no effect, and a `Batch` without the walks it needs."""
        given = {"walks": walks, "num_steps": num_steps, "seed": seed}
        if self.walk_plan is None:  # a seed is what any model may be called with
            given, source = {"walks": walks, "num_steps": num_steps}, "no block of this network walks"
        elif isinstance(data, Batch):
            if data.walks is None:
                raise ValueError(
                    "The batch has no walks: a model with this network in it needs its walk_plan (self.walk_plan = "
                    "network.walk_plan) to get some."
                )
            source = "a crawl.nn.Batch has its walks"
        elif walks is not None:
            given, source = {"num_steps": num_steps, "seed": seed}, "the walks are given"
        else:
            return
        if useless := [name for name, value in given.items() if value is not None]:
            raise ValueError(f"{' and '.join(useless)} would have no effect, since {source}: leave it out.")

    def encoded(self, data: Data | Batch, walks: Walks | None, num_steps: int | None, seed: int | None) -> Batch:
        """The batch that the first block sees, made of PyG's or of one of ours; the arguments of `forward`."""
        self.check_walk_arguments(data, walks, num_steps, seed)
        if isinstance(data, Batch):
            return data if data.is_encoded else self.encode(self.checked_batch(data))
        return self.encode(self.batch_of(data, walks, num_steps, seed))

    def batch_of(self, data: Data, walks: Walks | None, num_steps: int | None, seed: int | None) -> Batch:
        """The batch of a PyG `Data` or `Batch`, with the given walks or fresh ones; the arguments of `forward`."""
        if walks is not None:
            check_type("walks", walks, Walks, "call model.sample_walks(graph)")
        edge_weight = getattr(data, "edge_weight", None)
        draws = self.walk_plan is not None and walks is None
        if not draws and walks is None and weights_differ(edge_weight):
            raise ValueError(
                "A network without walks does not use edge_weight: make it a feature (edge_attr), or take it away "
                "(del data.edge_weight)."
            )
        # Walks that are given may run where edges do not lead.
        graph = Graph.from_data(data, weighted=draws and edge_weight is not None, undirected=not draws)
        if draws:
            walks = self.sample_walks(graph, num_steps, seed, data.graph_keys if "graph_keys" in data else None)
        batch = Batch.from_data(data, graph, walks, self._like.device)
        x, edge_attr = self.checked_features(data.x, graph.num_nodes, data.edge_attr, graph.num_edges)
        return replace(batch, x=x, edge_attr=edge_attr, u=self.checked_u(data.get("u"), graph.num_graphs))

    def checked_u(self, u: Tensor | None, num_graphs: int) -> Tensor | None:
        """Features of graphs as the network takes them. Refuses those that do not fit it, or would not be seen."""
        if self.graph_features is not None:
            return self.graph_features.checked(u, num_graphs)
        if u is not None:
            width = u.shape[-1] if isinstance(u, Tensor) and u.dim() else 1
            raise ValueError(
                f"The data has u, features of graphs, but the model graph_channels=0: give it graph_channels={width} "
                "to use them, or take them away (del data.u)."
            )
        return None

    def checked_features(
        self, x: Tensor | None, num_nodes: int, edge_attr: Tensor | None, num_edges: int
    ) -> tuple[Tensor | None, Tensor | None]:
        """Features of nodes and edges as the encoders take them. Refuses those that do not fit the network."""
        x = _checked(self.node_encoder, x, num_nodes)
        width = self.edge_encoder.out_channels
        if not width and not self.ignores_edges and edge_attr is not None:
            _refuse_unused(plain_tensor("edge_attr", edge_attr), self.can_see_edges)
        if not width or (edge_attr is None and self._edges_may_be_bare):
            return x, None
        return x, _checked(self.edge_encoder, edge_attr, num_edges)

    def checked_batch(self, batch: Batch) -> Batch:
        """The batch with features as the encoders take them. Refuses those that do not fit the network.

        Looking at values waits for a GPU, so nothing is looked at in steps that are being captured.
        """
        if batch.edge_index.is_cuda and torch.cuda.is_current_stream_capturing():
            return batch
        x, edge_attr = self.checked_features(batch.x, batch.num_nodes, batch.edge_attr, batch.num_edges)
        return replace(batch, x=x, edge_attr=edge_attr, u=self.checked_u(batch.u, batch.num_graphs))

    def encode(self, batch: Batch) -> Batch:
        """The batch with the features that the first block sees; it waits for no device."""
        x = _encoded(self.node_encoder, batch.x, batch.num_nodes, self._like)
        edge_attr = batch.edge_attr
        if edge_attr is not None or (self.edge_encoder.out_channels and not self._edges_may_be_bare):
            edge_attr = _encoded(self.edge_encoder, edge_attr, batch.num_edges, self._like)
        u = batch.u if self.graph_features is None or batch.u is None else self.graph_features(batch.u, self._like)
        return replace(batch, x=x, edge_attr=edge_attr, u=u, is_encoded=True)

    def first_state(self, batch: Batch) -> State:
        """What the first block sees of an encoded batch."""
        nodes, edges = batch.x, batch.edge_attr
        assert nodes is not None
        nodes = self.input_dropout(_normed(self.node_norm, nodes, batch.nodes.rows))
        edges = None if edges is None else _normed(self.edge_norm, edges, batch.edges.rows)
        if self.node_embedding is not None:
            nodes = self.node_embedding(nodes)
        if self.changes_edges and edges is None:
            edges = nodes.new_zeros(batch.num_edges, self.hidden_channels)
        elif self.edge_embedding is not None:
            edges = self.edge_embedding(edges)
        return State(nodes, edges, nodes.new_zeros(batch.num_graphs, self.hidden_channels))

    @property
    def can_encode_ahead(self) -> bool:
        """Whether the encoders have no weights, so that `encode` need not be part of a training step."""
        return all(isinstance(_inner(encoder), Dense | OneHot) for encoder in (self.node_encoder, self.edge_encoder))

    @property
    def _edges_may_be_bare(self) -> bool:
        return isinstance(self.edge_encoder, Dense) and self.edge_encoder.out_channels == 1

    @property
    def _like(self) -> Tensor:
        """A parameter, which tells the dtype and the device."""
        return self.readout.norm.bias


def _as_graph_features(given: int | GraphFeatures) -> GraphFeatures | None:
    if isinstance(given, GraphFeatures):
        return given
    return GraphFeatures(width) if (width := whole_number("graph_channels", given, 0, MAX_CHANNELS)) else None


def _refuse_unused(edge_attr: Tensor, can_be_used: bool) -> None:
    if edge_attr.numel():
        width = edge_attr.shape[1] if edge_attr.dim() > 1 else 1
        use = f"edge_dim={width} to use them, or " if can_be_used else ""
        raise ValueError(
            f"The data has edge_attr, but the model edge_dim=0: give it {use}edge_dim=None to ignore them."
        )


def _as_encoder(name: str, given: int | Encoder, low: int) -> Encoder:
    if not isinstance(given, nn.Module):
        return Dense(whole_number(name, given, low, MAX_CHANNELS))
    if not hasattr(given, "out_channels"):
        raise ValueError(f"{name} must be a number or an encoder with `out_channels`, not {type(given).__name__}.")
    return given


def _inner(encoder: Encoder) -> Encoder:
    """The encoder of what is not a structural encoding."""
    return encoder.encoder if isinstance(encoder, WithEncodings) else encoder


def _norm_of(encoder: Encoder) -> BatchNorm | None:
    """For encodings, whose columns differ in size by orders of magnitude."""
    return BatchNorm(encoder.width) if isinstance(encoder, WithEncodings) else None


def _normed(norm: BatchNorm | None, features: Tensor, rows: Rows) -> Tensor:
    """The features with the encodings, which are their last columns, normalised."""
    if norm is None:
        return features
    own, encodings = features[:, : -norm.num_features], features[:, -norm.num_features :]
    return torch.cat([own, norm(encodings, rows)], dim=1)


def _checked(encoder: Any, features: Tensor | None, num_rows: int) -> Tensor | None:
    """Features that an encoder takes; one of the user's own may check for itself."""
    checked: Tensor | None = encoder.checked(features, num_rows) if hasattr(encoder, "checked") else features
    return checked


def _encoded(encoder: Any, features: Tensor | None, num_rows: int, like: Tensor) -> Tensor:
    encoded: Tensor = getattr(encoder, "encode", encoder)(features, num_rows, like)
    return encoded
