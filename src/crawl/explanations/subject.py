"""What is explained: one number that a model answers for a graph, or for a node of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data

from crawl.checks import MAX_SEED, check_type, shown, truth, whole_number
from crawl.data.encoded import with_encodings
from crawl.data.identity import graph_keys
from crawl.data.store import GraphStore
from crawl.explanations.probe import Probe, ProbedWalks, probed
from crawl.graph import Graph
from crawl.models import Network
from crawl.nn.batch import Batch
from crawl.nn.encoders import WithEncodings
from crawl.nn.linear import Linear
from crawl.nn.readout import Readout
from crawl.runs.trained import TrainedModel
from crawl.training.calling import Caller
from crawl.training.seeds import derive_seed
from crawl.walks.plan import WalkPlan
from crawl.walks.walks import Walks


@dataclass(frozen=True)
class Target:
    """Which number of an answer is explained: factor · answer[column] + offset.

    Attributes:
        column: The column of the model's answer.
        name: What it is, for people.
        factor: From the unit of the network to that of the target; -1 for the first of two classes.
        offset: Added after that.
    """

    column: int
    name: str
    factor: float = 1.0
    offset: float = 0.0


class Subject:
    """A model that can be asked for one number of a graph, with walks of any volume.

    Args:
        model: A module, or a trained model.
        target: The output: a column, or the name of a target, class or label that a trained model knows. None for the
            only one, for the second of two classes, and for the most probable of several.
        num_steps: Steps of the walks; those of the model in evaluation when None.
        seed: Of the walks; a trained model draws those of `TrainedModel.predict`.
        double: Compute in float64.

    Raises:
        ValueError: If the model, or the task, cannot be explained.
    """

    def __init__(
        self,
        model: nn.Module | TrainedModel,
        target: int | str | None = None,
        *,
        num_steps: int | None = None,
        seed: int = 0,
        double: bool = False,
    ) -> None:
        check_type("model", model, (nn.Module, TrainedModel), "give a network or crawl.runs.TrainedModel.load(run)")
        self.trained = model if isinstance(model, TrainedModel) else None
        network = model.model if isinstance(model, TrainedModel) else model
        if next(network.parameters(), None) is None:
            raise ValueError(f"{type(network).__name__} has no weights, so there is nothing to explain.")
        self.seed = whole_number("seed", seed, 0, MAX_SEED)
        self.num_steps = None if num_steps is None else whole_number("num_steps", num_steps)
        self.asked, self.dtype = target, torch.float64 if truth("double", double) else torch.float32
        self.probe = Probe()
        self.model: Any = probed(network, self.probe, self.dtype)
        self.caller, self.device = Caller(network), next(network.parameters()).device
        if self.trained is not None and self.trained.members:
            raise ValueError("The models of an ensemble have explanations of their own: load one of them, as member-1.")
        if self.trained is not None and self.trained.features.task.level == "pair":
            raise ValueError(
                "Links and bonds are pairs of nodes, whose predictions are not explained: explain graphs or nodes."
            )
        if self.trained is not None:  # refuses names that there are not
            _named_target(self.trained, target, torch.zeros(1, self.trained.features.task.num_outputs))
        if self.trained is not None and self.trained.batches == "closed":
            raise ValueError(
                "The model was trained with closed batches, in which only the nodes that are asked for start walks, "
                "and these are not explained yet: train on nodes.csv and edges.csv, or PyG data, with batches='full'."
            )
        self.plan: WalkPlan | None = getattr(network, "walk_plan", None)
        if self.caller.takes_batch and self.plan is None:
            raise ValueError(
                f"No layer of this {type(network).__name__} walks, and explanations are made of walks: explain a "
                "network with a walk layer, or use torch_geometric.explain."
            )

    # ---- what goes in

    def prepared(self, data: Data) -> Data:
        """The graph with features as the model takes them: those of a trained model are checked, encoded and keyed."""
        if self.trained is None:
            return data
        parts = {name: data[name] for name in ("x", "edge_index", "edge_attr", "edge_weight", "u") if name in data}
        store = GraphStore.from_graphs([Data(**parts, num_nodes=data.num_nodes)])
        store = with_encodings(self.trained.features.prepared(store), self.trained.experiment.encodings)
        prepared = store.graph(0)
        is_one_graph = self.trained.batches is not None
        prepared.graph_keys = torch.zeros(1, dtype=torch.long) if is_one_graph else graph_keys(store)
        return prepared

    def seed_of(self, repeat: int) -> int:
        """The seed of the walks of an evaluation."""
        if self.trained is None:
            return derive_seed(self.seed, "evaluation", repeat)
        return derive_seed(derive_seed(self.seed, "predict"), "evaluation", repeat)

    def inputs(self, data: Data, repeat: int, walks: Walks | None = None) -> Inputs:
        """What the model is given of a prepared graph: fresh walks, or those given, and its features as numbers."""
        seed, steps = self.seed_of(repeat), self.num_steps
        if not self.caller.takes_batch:
            if walks is not None:
                raise ValueError(f"{type(self.model).__name__} draws its own walks: leave out walks.")
            batch = PyGBatch.from_data_list([data]).to(self.device)
            batch = batch.apply(lambda part: part.to(self.dtype) if part.is_floating_point() else part)
            return Inputs(batch, seed, steps if "num_steps" in self.caller.accepts else None, self._scales(data.x))
        if isinstance(self.model, Network):
            batch = self.model.batch_of(data, walks, steps if walks is None else None, seed if walks is None else None)
            batch = self.model.encode(batch)
        else:
            graph = Graph.from_data(data)
            if walks is None:
                assert self.plan is not None  # or it was refused
                keys = data.graph_keys if "graph_keys" in data else None
                walks = self.plan.sample(graph, num_steps=steps, seed=seed, graph_keys=keys)
            batch = Batch.from_data(data, graph, walks, self.device)
            batch = batch.map(lambda part: part.to(self.device))
            batch = batch.map(lambda part: part.to(self.dtype) if part.is_floating_point() else part)
        assert batch.walks is not None
        batch = replace(batch, walks=ProbedWalks.of(batch.walks, self.probe))
        return Inputs(batch, seed, steps, isinstance(self.model, Network) or self._scales(data.x))

    def _scales(self, x: Tensor | None) -> bool:
        """Whether features of a model of the user's own are numbers, which can be scaled, and not categories."""
        modules = self.model.modules()
        has_categories = any(
            hasattr(module, "num_categories") or isinstance(module, WithEncodings) for module in modules
        )
        return x is not None and x.is_floating_point() and not has_categories

    # ---- what comes out

    def answer(self, inputs: Inputs, share: float, volume: float) -> tuple[Tensor, dict[str, Tensor]]:
        """`[rows, outputs]` with this share of the features and this volume of the walks, and the features given."""
        self.probe.volume, self.probe.readings = volume, []
        batch, leaves = inputs.scaled(share)
        out: Tensor = self._called(batch, inputs)
        return out, leaves

    def _called(self, batch: Any, inputs: Inputs) -> Tensor:
        """The answer of the copied model."""
        if self.caller.takes_batch:
            out: Tensor = self.model(batch)
            return out
        words = {"seed": inputs.seed, "num_steps": inputs.num_steps}
        words = {name: value for name, value in words.items() if name in self.caller.accepts}
        parts = {name: getattr(batch, name) for name in self.caller.parts}
        out = self.model(**parts, **words) if parts else self.model(batch, **words)
        return out

    def answers(self, inputs: Sequence[Inputs], node: int | None) -> tuple[Tensor, int]:
        """`[r, outputs]` the answers for a graph, or a node, and the row of the answer that this is.

        Raises:
            ValueError: If a node is given for a model that answers for graphs, or none for one that answers for nodes.
        """
        with torch.no_grad():
            found = [self.answer(each, 1.0, 1.0)[0] for each in inputs]
        num_rows, num_nodes = found[0].shape[0], inputs[0].batch.num_nodes
        if found[0].dim() != 2 or num_rows not in (1, num_nodes):
            raise ValueError(
                f"The model must answer with a row for the graph, or for each of its {num_nodes} nodes, not with a "
                f"tensor of shape {list(found[0].shape)}."
            )
        if num_rows == 1 and num_nodes > 1 and node is not None:
            raise ValueError(f"The model answers for graphs, so node={shown(node)} cannot be explained: leave it out.")
        if num_rows > 1 and node is None:
            raise ValueError(f"The model answers for nodes: say which to explain, node=0 to {num_nodes - 1}.")
        row = whole_number("node", 0 if node is None else node, 0, num_rows - 1)
        answers = torch.stack([each[row] for each in found])
        if not bool(answers.isfinite().all()):
            raise ValueError("The model answers with NaN or infinity, which cannot be explained.")
        return answers, row

    def probability(self, answers: Tensor, target: Target) -> float | None:
        """The mean probability of a class or label over evaluations; None for numbers."""
        kind = None if self.trained is None else self.trained.features.task.kind
        if kind is None or kind == "regression":
            return None
        answers = answers.double()
        found = answers.softmax(1) if kind == "multiclass" else (answers * target.factor).sigmoid()
        return float(found[:, target.column].mean())

    def target_of(self, answers: Tensor) -> Target:
        """Which number is explained, given `[r, outputs]` answers of several evaluations."""
        width = answers.shape[1]
        if self.trained is None:
            if self.asked is None and width > 1:
                raise ValueError(
                    f"The model answers with {width} numbers: say which to explain, target=0 to {width - 1}."
                )
            column = whole_number("target", 0 if self.asked is None else self.asked, 0, width - 1)
            return Target(column, f"output {column}" if width > 1 else "output")
        return _named_target(self.trained, self.asked, answers)

    @property
    def readout(self) -> Readout | None:
        """The readout of a network that pools nodes; None for others."""
        readout = self.model.readout if isinstance(self.model, Network) else None
        return readout if isinstance(readout, Readout) and readout.pool is not None else None

    def last_states(self, inputs: Inputs, share: float, volume: float) -> Tensor:
        """`[N, d]` what a network that pools nodes pools, with this share of the features and this volume of walks."""
        readout = self.readout
        assert readout is not None
        self.probe.volume, self.probe.readings = volume, []
        with torch.no_grad():
            batch, _ = inputs.scaled(share)
            states: Tensor = readout.norm(self.model.last_state(batch).nodes, batch.nodes.rows, relu=True)
            return states

    def readout_parts(self, inputs: Inputs, target: Target) -> tuple[Tensor, float] | None:
        """`[N]` what the last state of each node adds to the answer, and the rest; None if that is not a sum.

        It is one where the head is linear and nodes are pooled by a sum or a mean: then it is exact.
        """
        readout = self.readout
        if readout is None or not isinstance(readout.head, Linear):
            return None
        states = self.last_states(inputs, 1.0, 1.0)
        parts = states @ readout.head.weight[target.column, : states.shape[1]] * target.factor
        parts = parts / max(len(parts), 1) if readout.pool == "mean" else parts
        with torch.no_grad():
            rest = float(self.head(inputs, torch.zeros_like(states[0]))[target.column])
        return parts, rest * target.factor + target.offset

    def head(self, inputs: Inputs, pooled: Tensor) -> Tensor:
        """`[outputs]` what the head of a network answers to pooled nodes, `[d]`, beside the features of the graph."""
        assert self.readout is not None
        u = inputs.batch.u
        out: Tensor = self.readout.head(pooled if u is None else torch.cat([pooled, u[0]]))
        return out


@dataclass(frozen=True)
class Inputs:
    """A batch of one graph, and how the model is called with it.

    Attributes:
        batch: A `crawl.nn.Batch` with probed walks, or PyG data.
        seed: Of the walks that the model draws itself.
        num_steps: Steps of these.
        has_scale: Whether features are numbers that can be scaled.
    """

    batch: Any
    seed: int
    num_steps: int | None
    has_scale: bool

    def scaled(self, share: float) -> tuple[Any, dict[str, Tensor]]:
        """The batch with this share of the features of nodes and edges, and these by name, each with a gradient."""
        if not self.has_scale:
            return self.batch, {}
        parts = {name: getattr(self.batch, name) for name in ("x", "edge_attr")}
        parts = {name: value for name, value in parts.items() if value is not None and value.is_floating_point()}
        scaled = {name: (value * share).detach().requires_grad_() for name, value in parts.items()}
        if isinstance(self.batch, Batch):
            return replace(self.batch, **scaled), scaled
        batch = self.batch.clone()
        for name, value in scaled.items():
            batch[name] = value
        return batch, scaled


def _named_target(trained: TrainedModel, asked: int | str | None, answers: Tensor) -> Target:
    """The output that a name, or a number, means for the task of a trained model."""
    task, scaling = trained.features.task, trained.scaling
    names = list(task.class_names if task.kind in ("binary", "multiclass") else task.target_names)
    number = 2 if task.kind == "binary" else task.num_outputs
    names = names or [str(i) for i in range(number)]
    if asked is None:
        if task.kind == "multiclass":
            chosen = int(answers.double().softmax(1).mean(0).argmax())
        elif number == 1 or task.kind == "binary":
            chosen = number - 1
        else:
            raise ValueError(f"The model predicts {', '.join(names)}: say which to explain by target (--target NAME).")
    elif isinstance(asked, str):
        if asked not in names:
            raise ValueError(f"target must be one of {', '.join(names)}, not {shown(asked)}.")
        chosen = names.index(asked)
    else:
        chosen = whole_number("target", asked, 0, number - 1)
    if task.kind == "binary":
        return Target(0, f"logit of {names[chosen]}", 1.0 if chosen else -1.0)
    if task.kind == "regression":
        factor, offset = (scaling.deviation[chosen], scaling.mean[chosen]) if scaling.mean else (1.0, 0.0)
        return Target(chosen, names[chosen] if task.target_names else "target", factor, offset)
    return Target(chosen, f"logit of {names[chosen]}")
