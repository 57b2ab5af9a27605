"""`sample_walks`: from a graph to walks, with the sampler that suits the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from torch import Tensor

from crawl.checks import MAX_SEED, check_choice, check_window_size, whole_number
from crawl.choices import Backend, Strategy
from crawl.graph import Graph
from crawl.tensor_checks import in_memory
from crawl.walks.backends import sampler_for
from crawl.walks.checks import check_graph
from crawl.walks.starts import several_walks, start_nodes
from crawl.walks.strategies import StepLaw
from crawl.walks.walks import Walks


def sample_walks(
    graph: Graph,
    num_steps: int = 50,
    strategy: Strategy = "non_backtracking",
    start: float | Tensor | None = None,
    window_size: int = 8,
    seed: int = 0,
    p: float = 1.0,
    q: float = 1.0,
    backend: Backend = "auto",
    *,
    keys: Tensor | None = None,
    restart: float = 0.1,
    centred: bool = False,
    num_walks: int = 1,
) -> Walks:
    """Random walks on a graph, with the identity and adjacency bits of a sliding window.

    A walk depends on the graph, the seed, its start node and its key alone: not on the backend, the device, the threads
    or the other walks of the call.

    Args:
        graph: The graph or batch of graphs. If it has edge weights, steps are drawn in proportion to them.
        num_steps: The number of steps; a walk visits one more node.
        strategy: `uniform` draws among all arcs of a node; `non_backtracking` leaves out those that lead back where the
            walk came from, unless there are no others. The paper does not use `node2vec`, `min_degree`,
            `min_degree_non_backtracking`, `depth_first` and `restart`: docs/walks.md has their rules.
        start: None for one walk from every node that has an edge; a share in (0, 1] to draw that share of them at
            random, at least one in every graph that has an edge; or a tensor of nodes, repeated ones allowed.
        window_size: How far back the bits look (s), 0 to 32.
        seed: Any integer from 0 to 2^64 - 1.
        p: node2vec's return parameter, from 0.001 to infinity; the other strategies do not use it, nor q.
        q: node2vec's in-out parameter, from 0.001 to 1000.
        backend: `auto` takes `numba` on a CPU, `triton` on a GPU, `reference` elsewhere. All give the same walks.
        keys: int64, one for each node (`start` None or a share) or one for each start (`start` a tensor). Walks with
            the same key and start are the same walk. By default the key of a node is its id, or its `Graph.node_keys`,
            which do not depend on the batch, if the graph has `graph_keys`. For a tensor `start` it is the id, and each
            repetition of a node within the call gets another: to split such starts into several calls, give keys.
        restart: The chance of a jump back, between 0 and 1; the other strategies do not use it.
        centred: Put the start in the middle of its walk, at position `num_steps // 2`. Every edge must be there in both
            directions; `node2vec`, `depth_first` and `restart` walks cannot be.
        num_walks: Walks from each start, one after the other; docs/walks.md says which keys they have.
    """
    seed, num_walks = whole_number("seed", seed, 0, MAX_SEED), whole_number("num_walks", num_walks)
    law = StepLaw.named(strategy, p, q, restart, centred)
    draw = walks_from(graph, law, num_steps, window_size, seed, backend)
    nodes, own_keys = start_nodes(graph, start, keys, seed)
    if num_walks > 1:
        with in_memory(f"{nodes.numel() * num_walks} walks of {num_steps} steps"):
            nodes, own_keys = several_walks(graph, nodes, None if keys is None else own_keys, num_walks)
    return draw(nodes, own_keys)


def walks_from(
    graph: Graph, law: StepLaw, num_steps: int, window_size: int, seed: int, backend: Backend = "auto"
) -> Callable[[Tensor, Tensor], Walks]:
    """A function of start nodes and keys, as `start_nodes` gives them, all or a part, that samples their walks."""
    check_graph(graph)
    num_steps, window_size = whole_number("num_steps", num_steps, 0, 2**31 - 2), check_window_size(window_size)
    seed = whole_number("seed", seed, 0, MAX_SEED)
    check_choice("backend", backend, get_args(Backend))
    sampler = sampler_for(graph.device, backend)
    with in_memory(f"The weights of {graph.num_arcs} arcs"):
        weighed = law.on(graph)

    def draw(nodes: Tensor, keys: Tensor) -> Walks:
        with in_memory(f"{nodes.numel()} walks of {num_steps} steps"):
            sampled = sampler(weighed, nodes, keys, num_steps, law, window_size, seed)
        return Walks(*sampled, window_size, graph.num_nodes, graph.num_edges, has_jumps=law.restart > 0)

    return draw
