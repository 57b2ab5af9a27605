"""A network as a program of torch alone: `torch.export` of a network whose walks are given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from crawl.checks import check_type
from crawl.models import Network
from crawl.nn.attention import Attention
from crawl.nn.batch import Batch
from crawl.nn.conv import CRaWlConv
from crawl.nn.encoders import UNKNOWN, Embedding, OneHot, WithEncodings
from crawl.nn.from_pyg import PyGBlock
from crawl.nn.pair_readout import PairReadout
from crawl.nn.walk_gru import WalkGRU
from crawl.ops.segments import Rows, Segments
from crawl.walks.walks import Walks

if TYPE_CHECKING:
    from torch_geometric.data import Data

# The dimension of each input whose size is not fixed; of walks both are.
_DYNAMIC = {"edge_index": (1,), "walk_nodes": (0, 1), "walk_edges": (0, 1), "walk_code": (0, 1)}
_WHY_NOT: dict[type[nn.Module], str] = {
    Attention: "it lays nodes out in a grid, whose size depends on the largest graph of a batch",
    WalkGRU: "torch.export writes a recurrent network out step by step, which would fix the length of walks",
    PyGBlock: "what sizes a layer of PyG depends on is not known",
    PairReadout: "a program takes whole graphs, no pairs of nodes",
}


def export(model: Network, data: Data, walks: Walks | None = None) -> ExportedProgram:
    """A program of torch's own operations that computes what the network answers for given walks, in evaluation.

    It is saved with `torch.export.save` and runs without crawl: `torch.export.load(file).module()(**inputs)`, where
    `export_inputs` makes the inputs. Numbers of nodes, edges, graphs, walks and steps may be others in each call. There
    must be a walk, for a network that uses them, and steps for a whole window.

    Args:
        model: A `Network` or `CRaWl`, such as `TrainedModel.model`. It is left as it is.
        data: An example, a PyG `Data` or `Batch`: it tells which features there are, not how many of anything. It must
            have two nodes, and two walks if the network uses walks.
        walks: The walks on the example; drawn when None.

    Raises:
        ValueError: If a part of the network cannot be exported; the message names it, with the reason.
    """
    check_type("model", model, Network, "such as crawl.CRaWl(...), or the `model` of a TrainedModel")
    for name, module in model.named_modules():
        for kind, reason in _WHY_NOT.items():
            if isinstance(module, kind):
                raise ValueError(f"{type(module).__name__} ({name}) cannot be exported, since {reason}: leave it out.")
    walks = _drawn(model, data) if walks is None and model.walk_plan is not None else walks
    inputs = export_inputs(model, data, walks)
    if min(inputs[name].shape[0] for name in ("x", "walk_nodes") if name in inputs) < 2:
        raise ValueError("The example has fewer than two nodes or walks, as from its edges: give a larger one.")
    for module in model.modules():
        if isinstance(module, CRaWlConv):  # before tracing: its cache would keep tensors without values
            assert walks is not None
            module.bits.in_bytes(walks, module.mix.weight.dtype)
    shapes = {name: dict.fromkeys(_DYNAMIC.get(name, (0,)), Dim.DYNAMIC) for name in inputs}
    with _in_evaluation(model), _watched(model) as current, _any_sizes():
        try:
            return torch.export.export(_Program(model), (), inputs, dynamic_shapes=shapes)
        except Exception as error:  # whatever torch cannot trace
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"{current[-1] if current else 'This network'} cannot be exported, since torch.export says: {reason}"
            ) from error


def export_inputs(model: Network, data: Data, walks: Walks | None = None) -> dict[str, Tensor]:
    """The inputs, by their names, of the program that `export` makes of a network. Refuses what does not fit it.

    `x` are the node features, `[N, …]`, ones where the data has none; `edge_index`, `edge_attr` and `u` are those of
    the data, if the network has a use for them; `ptr`, `[G + 1]`, says where the nodes of each graph begin and end;
    `walk_nodes`, `walk_edges` and `walk_code` are the tensors of `Walks`.

    Args:
        model: The network.
        data: A PyG `Data` or `Batch`.
        walks: Walks on it, with the `window_size` of the network; drawn as in evaluation when None.
    """
    check_type("model", model, Network, "such as crawl.CRaWl(...), or the `model` of a TrainedModel")
    plan = model.walk_plan
    if walks is not None and plan is None:
        raise ValueError("No block of this network uses walks: leave them out.")
    with _in_evaluation(model):
        batch = model.batch_of(data, walks, None, None)
    ptr, x = batch.nodes.ptr, batch.x
    assert ptr is not None  # a batch of graphs that were given has it
    if x is None:
        x = next(model.parameters()).new_ones(batch.num_nodes, model.node_encoder.out_channels)
    found = {"x": x, "edge_index": batch.edge_index, "ptr": ptr.long(), "edge_attr": batch.edge_attr, "u": batch.u}
    if batch.walks is not None and plan is not None:
        if (batch.walks.window_size, batch.walks.has_jumps) != (plan.window_size, plan.has_jumps):
            raise ValueError(
                f"The walks have window_size={batch.walks.window_size}, or jump where the network does not: a program "
                f"reads walks as {type(model).__name__}.sample_walks draws them, with window_size={plan.window_size}."
            )
        walks = batch.walks.without_padding()
        found |= {"walk_nodes": walks.nodes, "walk_edges": walks.edges, "walk_code": walks.code}
    device = next(model.parameters()).device
    return {name: value.to(device) for name, value in found.items() if value is not None}


class _Program(nn.Module):
    """A network as a function of tensors, whose sizes may be symbols. It checks the ids that it is given."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        ptr: Tensor,
        edge_attr: Tensor | None = None,
        u: Tensor | None = None,
        walk_nodes: Tensor | None = None,
        walk_edges: Tensor | None = None,
        walk_code: Tensor | None = None,
    ) -> Tensor:
        """What the network answers."""
        num_nodes, num_edges = x.shape[0], edge_index.shape[1]
        nodes, edges = Rows(num_nodes), Rows(num_edges)
        _check_ids("edge_index", edge_index, num_nodes)
        _check(((ptr.diff() >= 0).all()) & (ptr[0] == 0) & (ptr[-1] == num_nodes), "ptr must rise from 0 to the nodes")
        _check_categories("x", self.network.node_encoder, x)
        if edge_attr is not None:
            _check_categories("edge_attr", self.network.edge_encoder, edge_attr)
        walks = None
        if walk_nodes is not None and walk_edges is not None and walk_code is not None:
            walks = _walks_of(self.network, (walk_nodes, walk_edges, walk_code), num_nodes, num_edges)
            _check_ids("walk_nodes", walk_nodes, num_nodes)
            _check_ids("walk_edges", walk_edges, num_edges + walks.has_jumps)
        graph_of_node = torch.searchsorted(ptr, torch.arange(num_nodes, device=ptr.device), right=True) - 1
        members = Segments(graph_of_node, nodes, Rows(ptr.shape[0] - 1), ptr)
        targets, sources = Segments(edge_index[1], edges, nodes), Segments(edge_index[0], edges, nodes)
        batch = Batch(edge_index, members, targets, sources, x, edge_attr, walks=walks, u=u)
        answer: Tensor = self.network(self.network.encode(batch))  # sizes may be symbols, so checks are those above
        return answer


def _drawn(model: Network, data: Data) -> Walks:
    """Walks on the example, as in evaluation."""
    with _in_evaluation(model):
        walks = model.batch_of(data, None, None, None).walks
    assert walks is not None
    return walks


def _walks_of(model: Network, tensors: tuple[Tensor, Tensor, Tensor], num_nodes: int, num_edges: int) -> Walks:
    plan = model.walk_plan
    assert plan is not None  # there are inputs for walks only then
    return Walks(*tensors, plan.window_size, num_nodes, num_edges, has_jumps=plan.has_jumps)


def _check(is_right: Tensor, message: str) -> None:
    """Makes the program refuse inputs for which this does not hold."""
    torch.ops.aten._assert_async.msg(is_right, message)


def _check_ids(name: str, ids: Tensor, number: int) -> None:
    _check(((ids >= 0) & (ids < number)).all(), f"{name} holds ids outside the graph")


def _check_categories(name: str, encoder: nn.Module, features: Tensor) -> None:
    own = encoder.encoder if isinstance(encoder, WithEncodings) else encoder
    if isinstance(own, OneHot | Embedding):
        features = features[:, : len(own.num_categories)]
        limit = torch.tensor(own.num_categories, device=features.device)
        is_known = (features >= 0) & (features < limit)
        _check((is_known | (features == UNKNOWN)).all(), f"{name} holds categories that the network does not know")


@contextmanager
def _in_evaluation(model: Network) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        yield
    finally:
        for module, is_training in modes.items():
            module.training = is_training


@contextmanager
def _watched(model: Network) -> Iterator[list[str]]:
    """The names of the parts of a network that are running, the innermost one last."""
    running: list[str] = []

    def enter(module: nn.Module, _: Any) -> None:
        running.append(type(module).__name__)

    def leave(*_: Any) -> None:
        running.pop()

    hooks = [part.register_forward_pre_hook(enter) for part in (*model.blocks, model.readout)]
    hooks += [part.register_forward_hook(leave) for part in (*model.blocks, model.readout)]
    try:
        yield running
    finally:
        for hook in hooks:
            hook.remove()


def _any_sizes() -> Any:
    """In here, tracing takes no size for more than 1 because it is so in the example."""
    from torch.fx.experimental import _config

    return _config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
