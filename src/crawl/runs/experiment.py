"""An experiment: everything that the result of a run depends on, as plain values that survive JSON.

Nothing here needs torch, so that the command line can refuse a mistake at once. Where a run computes and where its data
are stored is not part of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from crawl.checks import check_choice, check_fields, check_type, real_number, shown, whole_number
from crawl.choices import (
    OF_BLOCKS,
    WITH_CNN,
    WITH_NORM,
    WITH_WALKS,
    Batches,
    BlockName,
    Head,
    NormName,
    PairScore,
    Pool,
    Precision,
)
from crawl.encodings.settings import Encodings
from crawl.files import parse_json
from crawl.plain import LEFT_OUT, structure, tagged, unstructure
from crawl.runs.former import as_now
from crawl.runs.sources import WAYS_TO_SPLIT, Csl, Data, OwnFiles
from crawl.training.settings import Evaluation, Pretraining, Training
from crawl.walks.plan import WalkPlan, parameters_of_others

if TYPE_CHECKING:
    from pathlib import Path

    from crawl.data.dataset import Dataset
    from crawl.data.task import Task

_WIDEST, _DEEPEST = 10_000, 1_000  # far beyond what is useful; a typing error may ask for more than a machine has
WITH_BATCHES = (  # settings that a training has in which a batch is not the full graph
    *(("training", "batch_size"), ("training", "accumulate"), ("evaluation", "batch_size")),
)
OF_ALL_NETWORKS = (  # settings that a network keeps if its blocks are changed
    *("pool", "head", "dropout", "pair", "norm", "input_dropout", "normalise_features"),
)
OF_STARTS = ("start_share", "eval_start_share")  # settings of walks that closed batches do not have


@dataclass(frozen=True)
class Model:
    """A network of blocks; see `crawl.Network`.

    Attributes:
        layer: The blocks of a layer, `walk virtual_node` in the paper: names out of walk, walk_edges, gru,
            virtual_node, attention, feed_forward, edge_update, appnp, gcn, gcn2, gin, gine, gat, sage,
            gated_gcn and pna; with `+` between them they are side by side.
        hidden_channels: The width of the layers (d).
        num_layers: The number of layers (L).
        kernel_size: The width of the convolution along walks, odd; window_size + 1 when not given.
        identity: Use the identity bits of walks.
        adjacency: Use the adjacency bits of walks.
        pool: How the nodes of a graph are pooled.
        head: The kind of readout: `mlp` or `linear`.
        dropout: The dropout rate in blocks and before the head.
        num_heads: The number of heads of attention.
        precision: What matrix products on a GPU round to.
        padding: Pool all positions of walks, not those alone that have a whole window around them.
        pair: How a pair of nodes is scored: `mlp`, `bilinear` or `dot`.
        norm: The norms of blocks that pass messages, and before the head: `batch`, `layer`, or `none`, which is for
            walk convolutions, too.
        residual: Let blocks that pass messages add to the state of nodes instead of replacing it.
        input_dropout: The dropout rate of node features.
        normalise_features: Divide the features of each node by their sum (of absolute values).
    """

    name: ClassVar[str] = "network"
    layer: tuple[str, ...] = ("walk",)
    hidden_channels: int = 128
    num_layers: int = 3
    kernel_size: int | None = None
    identity: bool = True
    adjacency: bool = True
    pool: Pool = "mean"
    head: Head = "mlp"
    dropout: float = 0.0
    num_heads: int = 4
    precision: Precision = "tf32"
    padding: bool = False
    pair: PairScore = field(default="mlp", metadata=LEFT_OUT)
    norm: NormName = field(default="batch", metadata=LEFT_OUT)
    residual: bool = field(default=True, metadata=LEFT_OUT)
    input_dropout: float = field(default=0.0, metadata=LEFT_OUT)
    normalise_features: bool = field(default=False, metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        if not isinstance(self.layer, tuple | list) or not self.layer:
            raise ValueError(f"model.layer must be a list of blocks, such as ('walk',), not {shown(self.layer)}.")
        object.__setattr__(self, "layer", tuple(self.layer))
        for block in self.blocks:
            check_choice("A block of model.layer", block, get_args(BlockName))
        check_fields(self, "model", at_least_0=("dropout", "input_dropout"))
        for name, most in {"hidden_channels": _WIDEST, "num_layers": _DEEPEST, "kernel_size": _WIDEST}.items():
            if getattr(self, name) is not None:
                whole_number(f"model.{name}", getattr(self, name), 1, most)
        for name in ("dropout", "input_dropout"):
            if not 0 <= real_number(f"model.{name}", getattr(self, name)) < 1:
                raise ValueError(f"model.{name} must be 0 or more and below 1, not {getattr(self, name)}.")
        for setting in self.without_effect:
            value = getattr(self, setting)
            if value != getattr(Model, setting):
                raise ValueError(
                    f"A network of {self.title} cannot be changed by model.{setting}={value!r}: leave it out."
                )

    @property
    def blocks(self) -> list[str]:
        """The names of all blocks of a layer."""
        return [block for part in self.parts for block in (part if isinstance(part, tuple) else (part,))]

    @property
    def parts(self) -> list[str | tuple[str, ...]]:
        """The parts of a layer, as `crawl.Network` takes them."""
        return [tuple(part.split("+")) if isinstance(part, str) and "+" in part else part for part in self.layer]

    @property
    def has_walks(self) -> bool:
        """Whether a block uses walks."""
        return any(block in WITH_WALKS for block in self.blocks)

    @property
    def without_effect(self) -> list[str]:
        """The settings that no block of this network uses."""
        unused = [setting for setting, users in OF_BLOCKS.items() if not set(users) & set(self.blocks)]
        return [setting for setting in unused if hasattr(Model, setting)]

    @property
    def title(self) -> str:
        """What it is called in tables: `crawl` for the network of the paper."""
        return "crawl" if self.layer in (("walk",), ("walk", "virtual_node")) else " ".join(self.layer)


@dataclass(frozen=True)
class GivenModel:
    """A model that was given in Python.

    Attributes:
        class_: The name of its class.
    """

    name: ClassVar[str] = "given"
    has_walks: ClassVar[bool] = False  # none that an experiment gives it
    class_: str = ""

    @property
    def title(self) -> str:
        """What it is called in tables."""
        return self.class_.rpartition(".")[2]

    @property
    def remedy(self) -> str:
        """What to do where the model is needed."""
        return (
            f"This run was started in Python with a model of its own, {self.class_}: give the model again, with "
            "model=… in resume_run or TrainedModel.load."
        )


tagged(Model | GivenModel, {"network": Model, "given": GivenModel})


@dataclass(frozen=True)
class Experiment:
    """A run: data, walks, model, training, evaluation and the seed of everything random.

    Attributes:
        name: What the folder of the run is called.
        data: Which graphs, which targets, which split.
        walk: The walks of the network, if it uses any; for a model that was given, its `walk_plan`.
        model: The network.
        training: How to train.
        evaluation: How to evaluate.
        seed: The seed of everything random.
        encodings: Structural encodings that the network gets besides the features of the data.
        pretraining: Let the network predict hidden bits of walks before it is trained.
        split_seed: The seed of a split that is drawn; that of everything random when not given.
    """

    name: str = "run"
    data: Data = field(default_factory=Csl)
    walk: WalkPlan | None = None
    model: Model | GivenModel = field(default_factory=Model)
    training: Training = field(default_factory=Training)
    evaluation: Evaluation = field(default_factory=Evaluation)
    seed: int = 0
    encodings: Encodings = field(default=Encodings(), metadata=LEFT_OUT)
    pretraining: Pretraining | None = field(default=None, metadata=LEFT_OUT)
    split_seed: int | None = field(default=None, metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        whole_number("seed", self.seed, 0, 2**64 - 1)
        if self.split_seed is not None:
            whole_number("split_seed", self.split_seed, 0, 2**64 - 1)
            if not self.draws_split:
                raise ValueError(
                    f"No split of {getattr(self.data, 'name', self.data)!r} is drawn here, so it cannot be changed by "
                    f"split_seed={self.split_seed}: leave it out."
                )
        kinds: dict[str, Any] = {"data": Data, "model": Model | GivenModel, "training": Training}
        kinds |= {"evaluation": Evaluation, "encodings": Encodings}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                names = " or ".join(each.__name__ for each in get_args(kind) or (kind,))
                raise ValueError(f"experiment.{name} must be a {names}, not {shown(getattr(self, name))}.")
        if self.walk is None and self.model.has_walks:
            object.__setattr__(self, "walk", WalkPlan())
        if self.walk is not None:
            check_type("experiment.walk", self.walk, WalkPlan)
            if self.walk.p == math.inf:
                raise ValueError("JSON has no infinity, so walk.p=inf cannot be recorded: take a number such as 1e300.")
        if self.walk is not None and self.model.has_walks:
            _check_strategy(self.walk)
        elif self.walk is not None and isinstance(self.model, Model):
            raise ValueError(
                f"{self.model.title} does not walk, so it cannot be changed by --walk: leave it out (walk=None)."
            )
        if getattr(self.data, "batches", None) == "closed" and isinstance(self.model, Model):
            _check_closed(self.model, self.walk)
        if self.pretraining is not None:
            check_type("experiment.pretraining", self.pretraining, Pretraining)
            _check_has_bits(self.model, self.walk)
        if isinstance(self.model, Model) and not self.model.has_walks:
            object.__setattr__(self, "evaluation", _evaluated_once(self.evaluation, self.model.title))

    @property
    def draws_split(self) -> bool:
        """Whether the split of the data is drawn by a seed."""
        return isinstance(self.data, OwnFiles) and getattr(self.data, "split", None) in WAYS_TO_SPLIT

    @property
    def data_seed(self) -> int:
        """The seed of a split that is drawn."""
        return self.seed if self.split_seed is None else self.split_seed

    def to_json(self) -> str:
        """The experiment as JSON.

        Raises:
            ValueError: If one of its values is not a plain one.
        """
        try:
            return json.dumps(unstructure(self), indent=2, allow_nan=False) + "\n"
        except (TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise ValueError(f"The experiment holds a value that is not a plain one: {error}.") from None

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """The experiment written by `to_json`, of this or an older version.

        Raises:
            ValueError: For a key that does not exist, with the one that was probably meant, or a wrong value.
        """
        try:
            values = parse_json(text)
        except (TypeError, ValueError) as error:
            raise ValueError(f"The configuration is not valid JSON: {error}.") from None
        return cls.from_plain(values)

    @classmethod
    def from_plain(cls, values: Any) -> Experiment:
        """The experiment from the values in its JSON.

        Raises:
            ValueError: As `from_json` does.
        """
        return structure(cls, as_now(values), "The configuration")

    def how_to_resume(self, folder: Path) -> str:
        """The command that resumes a run in a folder; a call in Python, where what was given is given again."""
        given = [f"{name}=…" for name, part in (("model", self.model), ("dataset", self.data)) if part.name == "given"]
        return f"resume_run({str(folder)!r}, {', '.join(given)})" if given else f"crawl train --resume {folder}"

    def without_walks(self, model: Model) -> Experiment:
        """The same experiment with a network that does not walk."""
        evaluation = replace(self.evaluation, num_val_repeats=1, num_test_repeats=1)
        return replace(self, model=model, walk=None, evaluation=evaluation, pretraining=None)


def _check_strategy(walk: WalkPlan) -> None:
    if walk.strategy == "node2vec" and walk.p == walk.q == 1:
        raise ValueError("node2vec walks need --walk.p and --walk.q; with 1 and 1 they are uniform walks.")
    for name in parameters_of_others(walk.strategy):
        if (value := getattr(walk, name)) != getattr(WalkPlan, name):
            raise ValueError(f"{walk.strategy} walks cannot be changed by --walk.{name} {value!r}: leave it out.")


def _check_closed(model: Model, walk: WalkPlan | None) -> None:
    """Refuse closed batches for a network whose batches they cannot be."""
    if walk is None or not model.has_walks:
        raise ValueError(f"Closed batches are walks, and {model.title} does not walk: use data.batches='full'.")
    if walk.has_jumps:
        raise ValueError(f"Closed batches follow edges, which {walk.strategy} walks do not: use data.batches='full'.")


def _check_has_bits(model: Model | GivenModel, walk: WalkPlan | None) -> None:
    """Refuse to pre-train a network without bits to predict; a given model tells that itself."""
    if isinstance(model, Model) and (walk is None or walk.window_size == 0 or not (model.identity or model.adjacency)):
        raise ValueError(
            f"{model.title} looks at no bits of walks, so it cannot be changed by --pretraining: leave it out."
        )


def _evaluated_once(evaluation: Evaluation, model: str) -> Evaluation:
    """Without walks, all evaluations are equal."""
    for setting in ("num_val_repeats", "num_test_repeats"):
        value = getattr(evaluation, setting)
        if value not in (1, getattr(Evaluation, setting)):
            flag = f"--evaluation.{setting.replace('_', '-')} {value}"
            raise ValueError(f"{model} does not walk, so it cannot be changed by {flag}: leave it out.")
    return replace(evaluation, num_val_repeats=1, num_test_repeats=1)


# ---- what only the task or the device can tell


def suited(experiment: Experiment, dataset: Dataset, device: str, base: Experiment | None = None) -> Experiment:
    """The same experiment, `settled` for a data set, with a number of epochs that suits it if none was given."""
    training = experiment.training.for_graphs(len(dataset.split.train))
    return settled(replace(experiment, training=training), dataset.task, device, base, dataset.batches)


def settled(
    experiment: Experiment, task: Task, device: str, base: Experiment | None = None, batches: Batches | None = None
) -> Experiment:
    """The same experiment with every setting that changes nothing for this task, on this device, at its default.

    Refuses such a setting if it was chosen, with the flag that sets it, and why it has no effect. What is as in `base`,
    the experiment before a person changed it, was not chosen, nor is a default. `batches` says what a
    batch is, for targets of one graph.
    """
    for what, group, setting, usual in _without_effect(experiment, task, device, batches):
        part = getattr(experiment, group)
        value = getattr(part, setting)
        if value not in (usual, getattr(type(part), setting), getattr(getattr(base, group, None), setting, usual)):
            flag = f"--{group}.{setting.replace('_', '-')}"
            raise ValueError(f"{what} cannot be changed by {flag} ({shown(value)}): leave it out.")
        experiment = replace(experiment, **{group: replace(part, **{setting: usual})})
    return experiment


def _without_effect(
    experiment: Experiment, task: Task, device: str, batches: Batches | None
) -> Iterator[tuple[str, str, str, Any]]:
    """For each setting that changes nothing: what it cannot change, its group, its name and its usual value."""
    model, walk = experiment.model, experiment.walk
    if task.kind != "regression":
        yield f"A {task.kind} task", "training", "loss", Training.loss
        yield f"A {task.kind} task", "training", "normalise_targets", Training.normalise_targets
    if task.kind == "regression" or (task.level == "pair" and batches is not None):
        what = "A regression" if task.kind == "regression" else "A task about pairs, which are drawn,"
        yield what, "training", "class_weights", Training.class_weights
    if batches == "full":
        for group, setting in WITH_BATCHES:
            usual = getattr(type(getattr(experiment, group)), setting)
            yield "A batch of the full graph, which has all targets,", group, setting, usual
    if not getattr(experiment.data, "has_validation", True):
        usual = Evaluation.num_val_repeats if walk is not None else 1
        yield "A training without validation", "evaluation", "num_val_repeats", usual
    if not isinstance(model, Model):
        return
    if batches == "closed" and walk is not None:
        for setting in OF_STARTS:
            yield "A closed batch, whose walks start at its targets,", "walk", setting, getattr(WalkPlan, setting)
    if task.level != "graph":
        yield f"An answer for each {task.level}", "model", "pool", Model.pool
    if task.level == "pair":
        yield "An answer for each pair", "model", "head", Model.head
    else:
        yield f"An answer for each {task.level}", "model", "pair", Model.pair
    if device == "cpu":
        yield "A computation on the CPU", "model", "precision", Model.precision
    if _has_no_batch_norm(model) and experiment.encodings == Encodings():
        yield "A model without batch norms", "evaluation", "num_norm_graphs", Evaluation.num_norm_graphs
    if model.num_layers == 1:
        from crawl.nn.blocks import last_layer

        heard: list[Any] = last_layer(model.parts)
        layer = tuple("+".join(part) if isinstance(part, tuple) else part for part in heard)
        yield "A model of one layer", "model", "layer", layer
    keeps_kernel = model.kernel_size is not None or not set(WITH_CNN) & set(model.blocks)
    if walk is not None and keeps_kernel and not (model.identity or model.adjacency):
        yield "A model without bits", "walk", "window_size", WalkPlan.window_size


def _has_no_batch_norm(model: Model) -> bool:
    """Whether no block of a network, nor its readout, has one."""
    no_norm = ("appnp", "gcn2")
    without = {"batch": (), "layer": (*WITH_NORM, *no_norm), "none": (*WITH_NORM, *WITH_CNN, *no_norm)}
    return set(model.blocks) <= set(without[model.norm])
