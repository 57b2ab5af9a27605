"""Which walks a network wants: how a step is drawn, how many steps, from where, and how far back the bits look."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

from crawl.checks import (
    MAX_COUNT,
    check_centred,
    check_choice,
    check_node2vec,
    check_restart,
    check_window_size,
    share,
    truth,
    whole_number,
)
from crawl.choices import Strategy
from crawl.plain import LEFT_OUT

if TYPE_CHECKING:
    from torch import Tensor

    from crawl.graph import Graph
    from crawl.walks.strategies import StepLaw
    from crawl.walks.walks import Walks


def parameters_of_others(strategy: str) -> tuple[str, ...]:
    """The parameters of a `WalkPlan` that only strategies other than this one have."""
    owners = {"p": "node2vec", "q": "node2vec", "restart": "restart"}
    return tuple(name for name, owner in owners.items() if owner != strategy)


@dataclass(frozen=True)
class WalkPlan:
    """The walks of a network, in training and in evaluation. Nothing here needs torch until walks are drawn.

    Attributes:
        strategy: How the next node is drawn; see `sample_walks`.
        num_steps: Steps of a walk in training.
        num_eval_steps: Steps of a walk in evaluation.
        start_share: The share of nodes that start a walk in training (p*).
        eval_start_share: The share of nodes that start a walk in evaluation.
        window_size: How far back the structural bits look (s).
        p: node2vec's return parameter.
        q: node2vec's in-out parameter.
        restart: The chance that a step of `restart` walks jumps back to the start.
        centred: Put the start of a walk in its middle.
        num_walks: Walks from each start node.
        num_eval_walks: Walks from each start node in evaluation; as many as in training when None.
    """

    strategy: Strategy = "non_backtracking"
    num_steps: int = 50
    num_eval_steps: int = 150
    start_share: float = 1.0
    eval_start_share: float = 1.0
    window_size: int = 8
    p: float = 1.0
    q: float = 1.0
    restart: float = 0.1
    centred: bool = field(default=False, metadata=LEFT_OUT)
    num_walks: int = field(default=1, metadata=LEFT_OUT)
    num_eval_walks: int | None = field(default=None, metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        check_choice("strategy", self.strategy, get_args(Strategy))
        checked: dict[str, float] = {"window_size": check_window_size(self.window_size)}
        for name in ("num_steps", "num_eval_steps"):
            checked[name] = whole_number(name, getattr(self, name), 0, MAX_COUNT - 1)
        for name in ("start_share", "eval_start_share"):
            checked[name] = share(name, getattr(self, name))
        if self.strategy == "node2vec":
            check_node2vec(self.p, self.q)
        checked["restart"] = check_restart(self.restart)
        checked["centred"] = check_centred(self.strategy, self.centred)
        checked["num_walks"] = whole_number("num_walks", self.num_walks)
        if self.num_eval_walks is not None:
            checked["num_eval_walks"] = whole_number("num_eval_walks", self.num_eval_walks)
        vars(self).update(checked)

    @property
    def law(self) -> StepLaw:
        """How a step is drawn."""
        from crawl.walks.strategies import StepLaw

        return StepLaw.named(self.strategy, self.p, self.q, self.restart, self.centred)

    @property
    def has_jumps(self) -> bool:
        """Whether some steps follow no edge."""
        return self.strategy == "restart"

    def steps(self, is_training: bool) -> int:
        """The number of steps of a walk."""
        return self.num_steps if is_training else self.num_eval_steps

    def starts(self, is_training: bool) -> float | None:
        """The share of nodes that start a walk; None for all."""
        of_nodes = self.start_share if is_training else self.eval_start_share
        return of_nodes if of_nodes < 1 else None

    def in_mode(self, is_training: bool) -> WalkPlan:
        """The plan whose `num_walks` is the number of walks in training, or in evaluation."""
        if is_training or self.num_eval_walks is None:
            return self
        return replace(self, num_walks=self.num_eval_walks, num_eval_walks=None)

    def sample(
        self,
        graph: Graph,
        *,
        is_training: bool = False,
        num_steps: int | None = None,
        seed: int | None = None,
        graph_keys: Tensor | None = None,
    ) -> Walks:
        """Walks on a graph, for training or evaluation.

        Args:
            graph: The graph or batch of graphs.
            is_training: Whether they are for training.
            num_steps: Steps of the walks; those of the plan when None.
            seed: The seed; taken from torch's generator when None.
            graph_keys: `[G]` a number for each graph; see `Graph.node_keys`.
        """
        import torch

        from crawl.walks.checks import check_graph
        from crawl.walks.sampling import sample_walks

        check_graph(graph)
        is_training = truth("is_training", is_training)
        return sample_walks(
            graph,
            num_steps=self.steps(is_training) if num_steps is None else num_steps,
            strategy=self.strategy,
            start=self.starts(is_training),
            window_size=self.window_size,
            seed=int(torch.randint(2**62, (), device="cpu")) if seed is None else seed,
            p=self.p,
            q=self.q,
            keys=None if graph_keys is None else graph.node_keys(graph_keys),
            restart=self.restart,
            centred=self.centred,
            num_walks=self.in_mode(is_training).num_walks,
        )
