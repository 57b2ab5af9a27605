"""From the plain values of an experiment to a data set and a model."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from crawl.baselines import WIDTH_STEP, MessagePassing
from crawl.checks import check_type
from crawl.data.benchmarks import BENCHMARKS, load_benchmark, synthetic
from crawl.data.dataset import Dataset
from crawl.data.task import Task
from crawl.experiments.experiment import Data, Experiment
from crawl.models import CRaWl
from crawl.nn.conv import CRaWlConv
from crawl.nn.encoders import Dense, Encoder, OneHot
from crawl.training.seeds import derive_seed

_DRAWING = threading.Lock()  # weights are drawn with torch's generator, of which there is one


@dataclass(frozen=True)
class Features:
    """What a model expects of its graphs, and what it answers; goes into its checkpoint.

    Attributes:
        task: What is predicted.
        node_categories: The sizes of the categories in `x`; () for numbers.
        edge_categories: The same for `edge_attr`.
        num_node_features: The width of `x` as numbers; 0 for none.
        num_edge_features: The same for `edge_attr`.
        mean_log_degree: The mean of log(degree + 1) over the nodes of the training graphs; other graphs fit as well.
    """

    task: Task
    node_categories: tuple[int, ...] = ()
    edge_categories: tuple[int, ...] = ()
    num_node_features: int = 0
    num_edge_features: int = 0
    mean_log_degree: float = field(default=1.0, compare=False)

    @classmethod
    def of(cls, dataset: Dataset) -> Features:
        """The features of a data set."""
        check_type("dataset", dataset, Dataset, "call crawl.data.from_pyg(graphs), for example")
        return cls(
            dataset.task,
            dataset.node_categories,
            dataset.edge_categories,
            dataset.num_node_features,
            dataset.num_edge_features,
            _mean_log_degree(dataset),
        )

    @classmethod
    def of_benchmark(cls, name: str) -> Features:
        """The features of a benchmark as published, without its data; categories count as numbers."""
        benchmark = BENCHMARKS[name]
        return cls(benchmark.task, num_node_features=benchmark.widths[0], num_edge_features=benchmark.widths[1])

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Features:
        """The features written by `dataclasses.asdict`, perhaps through JSON."""
        try:
            parts: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
            }
            parts["task"] = Task(**values["task"])
            return cls(**parts)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"These are not the features of a model: {error}.") from error

    def to_dict(self) -> dict[str, Any]:
        """The features as plain values."""
        return asdict(self)


def build_model(experiment: Experiment, features: Features) -> CRaWl | MessagePassing:
    """The model of an experiment, with weights drawn from its seed.

    Nodes without features get a constant 1, edges without features a channel that is always 0: as in the paper, a model
    without structural bits then cannot but guess on regular graphs.
    """
    check_type("experiment", experiment, Experiment)
    settings, walk, task = experiment.model, experiment.walk, features.task
    node_encoder = _encoder(features.node_categories, features.num_node_features)
    edge_encoder = _encoder(features.edge_categories, features.num_edge_features)
    pool = None if task.level == "node" else settings.pool
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(experiment.seed, "weights"))
        if settings.name != "crawl":
            return MessagePassing(
                settings.name,
                node_encoder,
                task.num_outputs,
                hidden_channels=settings.hidden_channels,
                num_layers=settings.num_layers,
                edge_dim=edge_encoder,
                pool=pool,
                head=settings.head,
                dropout=settings.dropout,
                mean_log_degree=features.mean_log_degree,
            )
        model = CRaWl(
            node_encoder,
            task.num_outputs,
            hidden_channels=settings.hidden_channels,
            num_layers=settings.num_layers,
            edge_dim=edge_encoder,
            window_size=walk.window_size,
            kernel_size=settings.kernel_size,
            identity=settings.identity,
            adjacency=settings.adjacency,
            virtual_node=settings.virtual_node,
            pool=pool,
            head=settings.head,
            dropout=settings.dropout,
            precision=settings.precision,
            strategy=walk.strategy,
            num_steps=walk.num_steps,
            num_eval_steps=walk.num_eval_steps,
            start_share=walk.start_share,
        )
    layer, shortest = model.convs[0], min(walk.num_steps, walk.num_eval_steps)
    assert isinstance(layer, CRaWlConv)
    if shortest + 1 < layer.kernel_size:  # said here, before anything is trained or a folder is made
        raise ValueError(
            f"Walks of {shortest} steps are shorter than one window of {layer.kernel_size} nodes: take more."
        )
    return model


def count_parameters(experiment: Experiment, features: Features) -> int:
    """The number of trained numbers in the model of an experiment."""
    return sum(parameter.numel() for parameter in build_model(experiment, features).parameters())


def fit_width(experiment: Experiment, features: Features, budget: int) -> Experiment:
    """The same experiment with the widest layers that the budget of parameters allows.

    Raises:
        ValueError: If the budget does not allow any.
    """

    def with_width(steps: int) -> Experiment:
        return replace(experiment, model=replace(experiment.model, hidden_channels=WIDTH_STEP * steps))

    if count_parameters(with_width(1), features) > budget:
        raise ValueError(f"A {experiment.model.name} of width {WIDTH_STEP} has more than {budget:,} parameters.")
    low, high = 1, 2
    while count_parameters(with_width(high), features) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if count_parameters(with_width(middle), features) <= budget:
            low = middle
        else:
            high = middle
    return with_width(low)


def load_dataset(data: Data, seed: int = 0) -> Dataset:
    """The data set of an experiment.

    Raises:
        ValueError: If it cannot be read; the message says where and what to do.
    """
    if data.is_synthetic and data.name not in BENCHMARKS:
        raise ValueError(f"{data.name} is no benchmark: leave out --data.is-synthetic.")
    _refuse_unused(data)
    if data.is_synthetic:
        return synthetic(BENCHMARKS[data.name])
    if data.name == "csl":
        from crawl.data.csl import csl

        return csl(data.fold, data.laplacian)
    if data.name == "counting":
        from crawl.data.counting import counting

        return counting(data.target)
    if data.name in BENCHMARKS:
        return load_benchmark(
            data.name,
            data.root,
            fold=data.fold,
            has_validation=data.has_validation,
            has_positions=data.has_positions,
        )
    if data.path is None:
        raise ValueError(f"Data of the kind {data.name!r} need --data.path, the file or folder to read.")
    path = Path(data.path)
    if not path.exists():
        raise ValueError(f"There is no file or folder {path}.")
    if data.name == "csv":
        from crawl.data.molecules import from_csv

        return from_csv(
            path,
            smiles_column=data.smiles,
            target_columns=data.targets,
            split=data.split,
            fractions=data.fractions,
            seed=seed,
            bad_rows=data.bad_rows,
            task=data.task,
            metric=data.metric,
        )
    if data.name == "tu":
        from crawl.data.tu import from_tu

        return from_tu(path, split=data.split, fractions=data.fractions, seed=seed, metric=data.metric)
    from crawl.data.folder import from_folder

    return from_folder(
        path,
        target_columns=data.targets,
        split=data.split,
        fractions=data.fractions,
        seed=seed,
        bad_rows=data.bad_rows,
        task=data.task,
        metric=data.metric,
    )


_OWN_FILES = ("csv", "tu", "folder")
_WITH_FOLDS = tuple(name for name, benchmark in BENCHMARKS.items() if benchmark.num_folds)
_WITH_FOLDS_IN_FILES = tuple(name for name in _WITH_FOLDS if BENCHMARKS[name].make is None)
_USED_BY: dict[str, tuple[str, ...]] = {
    **{"target": ("counting",), "laplacian": ("csl",), "smiles": ("csv",), "has_positions": ("mnist", "cifar10")},
    **{"targets": ("csv", "folder"), "task": ("csv", "folder"), "bad_rows": ("csv", "folder")},
    **{"path": _OWN_FILES, "metric": _OWN_FILES, "fractions": _OWN_FILES},
    **{"fold": _WITH_FOLDS, "has_validation": _WITH_FOLDS_IN_FILES},
}


def _refuse_unused(data: Data) -> None:
    """Refuse settings that would change nothing, as a record of them would not be true."""
    usual = Data()
    for setting, names in _USED_BY.items():
        is_used = data.name in names and not data.is_synthetic
        if not is_used and getattr(data, setting) != getattr(usual, setting):
            what = f"Random graphs like {data.name}" if data.is_synthetic else data.name
            flag = f"--data.{'no-' * (setting == 'has_validation')}{setting.replace('_', '-')}"
            raise ValueError(f"{what} cannot be changed by {flag}: leave it out.")


def _mean_log_degree(dataset: Dataset) -> float:
    store = dataset.store.subset(dataset.split.train) if len(dataset.split.train) else dataset.store
    first = store.node_ptr[:-1].repeat_interleave(store.edge_ptr.diff())
    degree = torch.bincount(store.edge_index[1] + first, minlength=store.num_nodes)
    mean = float((degree + 1).log().mean()) if store.num_nodes else 0.0
    return mean or 1.0  # there are no edges, and nothing depends on it


def _encoder(categories: tuple[int, ...], width: int) -> Encoder:
    return OneHot(categories) if categories else Dense(max(width, 1))
