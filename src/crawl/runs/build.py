"""From the plain values of an experiment to a data set and a model."""

from __future__ import annotations

import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from crawl.checks import check_type
from crawl.choices import BY_FILE
from crawl.data.benchmarks import load_benchmark
from crawl.data.dataset import Dataset
from crawl.data.splits import Folds
from crawl.models import Network
from crawl.nn.blocks import BLOCKS
from crawl.nn.conv import CRaWlConv
from crawl.nn.encoders import Dense, Encoder, OneHot, WithEncodings
from crawl.nn.graph_features import GraphFeatures
from crawl.runs.experiment import Experiment, GivenModel, Model
from crawl.runs.features import Features
from crawl.runs.sources import (
    TU,
    Counting,
    Csl,
    Csv,
    Data,
    Folder,
    GivenData,
    Heterophilous,
    InRoot,
    Links,
    Nodes,
    OwnFiles,
    OwnGraphs,
    Packed,
    Planetoid,
    Social,
    Superpixels,
    existing_path,
)
from crawl.training.checkpoint import check_state
from crawl.training.seeds import derive_seed
from crawl.walks.plan import WalkPlan

_DRAWING = threading.Lock()  # weights are drawn with torch's generator, of which there is one


def build_model(experiment: Experiment, features: Features) -> Network:
    """The network of an experiment, with weights drawn from its seed. Refuses walks shorter than a window, and a model
    that was given in Python.

    Nodes without features get a constant 1, edges without features a channel that is always 0: as in the paper, a model
    without structural bits can then only guess on regular graphs.
    """
    check_type("experiment", experiment, Experiment)
    settings, walk, task = experiment.model, experiment.walk or WalkPlan(), features.task
    if isinstance(settings, GivenModel):
        raise ValueError(settings.remedy)
    sees_edges, encodings = any(BLOCKS[block].sees_edges for block in settings.blocks), experiment.encodings
    if encodings.walk_steps and not sees_edges:
        raise ValueError(
            f"A network of {settings.title} does not look at edge features, so it cannot be changed by "
            f"--encodings.walk-steps {encodings.walk_steps}: leave it out."
        )
    if settings.normalise_features and (features.node_categories or not features.num_node_features):
        what = "categories" if features.node_categories else "not there"
        raise ValueError(
            f"The features of nodes are {what}, so they cannot be changed by --model.normalise-features: leave it out."
        )
    node_encoder = _encoder(
        features.node_categories,
        max(features.num_node_features, 1),
        encodings.node_width,
        normalised=settings.normalise_features,
    )
    least = 0 if encodings.edge_width else 1
    edge_encoder = _encoder(features.edge_categories, max(features.num_edge_features, least), encodings.edge_width)
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(experiment.seed, "weights"))
        model = Network(
            node_encoder,
            task.num_outputs * (2 if experiment.training.has_noise else 1),
            layer=settings.parts,
            hidden_channels=settings.hidden_channels,
            num_layers=settings.num_layers,
            edge_dim=edge_encoder if sees_edges else None,
            kernel_size=settings.kernel_size,
            identity=settings.identity,
            adjacency=settings.adjacency,
            pool=settings.pool if task.level == "graph" else None,
            head="mlp" if task.level == "pair" else settings.head,
            pair=settings.pair if task.level == "pair" else None,
            dropout=settings.dropout,
            graph_channels=GraphFeatures(*features.graph_scaling) if features.num_graph_features else 0,
            input_dropout=settings.input_dropout,
            norm=settings.norm,
            residual=settings.residual,
            num_heads=settings.num_heads,
            mean_log_degree=features.mean_log_degree if "pna" in settings.blocks else 1.0,
            precision=settings.precision,
            padding=settings.padding,
            **asdict(walk),
        )
    shortest = min(walk.num_steps, walk.num_eval_steps)
    widest = max((module.kernel_size for module in model.modules() if isinstance(module, CRaWlConv)), default=0)
    if shortest + 1 < widest and not settings.padding:  # said here, before anything is trained or a folder is made
        raise ValueError(
            f"Walks of {shortest} steps are shorter than one window of {widest} nodes: take more, or model.padding."
        )
    return model


def check_given(settings: Model | GivenModel, model: nn.Module | None, place: Path) -> None:
    """Refuse a run without the model that it was given in Python, one of another class, and a model for a run that says
    how to build it. The module of the class may be another: a script that is imported has a name."""
    if isinstance(settings, GivenModel) and model is None:
        raise ValueError(settings.remedy)
    if isinstance(settings, GivenModel) and model is not None:
        check_type("model", model, nn.Module)
        if settings.title not in ("", type(model).__name__):
            raise ValueError(
                f"This run was started with a model of the class {settings.class_}, not {class_of(model)}: give one of "
                "that class."
            )
        check_state(model)
    if isinstance(settings, Model) and model is not None:
        raise ValueError(f"{place} says how to build its model, a {settings.title}: leave out model.")


def class_of(model: nn.Module) -> str:
    """The name of the class of a model, with that of its module."""
    return f"{type(model).__module__}.{type(model).__qualname__}"


def count_parameters(experiment: Experiment, features: Features) -> int:
    """The number of parameters of the model of an experiment."""
    return sum(parameter.numel() for parameter in build_model(experiment, features).parameters())


def load_dataset(
    data: Data,
    seed: int = 0,
    *,
    path: str | Path | None = None,
    val_path: str | Path | None = None,
    test_path: str | Path | None = None,
    root: str | Path | None = None,
) -> Dataset:
    """The data set of an experiment.

    Args:
        data: What to read.
        seed: Of a split that is drawn.
        path: The file or folder of data of one's own; refused for others.
        val_path: The file for validation, if molecules are in three files; refused for others. So is `test_path`.
        test_path: The file for the test.
        root: The data root of benchmarks; the variable CRAWL_DATA or ~/.cache/crawl when None. Refused for others.
    """
    places: tuple[tuple[str, str | Path | None, Any], ...] = (
        *(("path", path, OwnFiles), ("val-path", val_path, Csv), ("test-path", test_path, Csv), ("root", root, InRoot)),
    )
    for name, place, users in places:
        if place is not None and not isinstance(data, users):
            raise ValueError(f"{data.name} cannot be changed by --data.{name} ({place}): leave it out.")
    if isinstance(data, Csv):
        return read_by(data, _molecules(data, seed, existing_path(data, path), val_path, test_path))
    return read_by(data, _load(data, seed, path, root))


def read_by(data: Data, dataset: Dataset) -> Dataset:
    """The data set, with a note of the settings that it was read by."""
    noted = replace(dataset)
    object.__setattr__(noted, "source", data)
    return noted


def _load(data: Data, seed: int, path: str | Path | None, root: str | Path | None) -> Dataset:
    match data:
        case GivenData():
            raise ValueError(
                "This run was started in Python with a data set of its own: give the data set again, with dataset=… in "
                "resume_run, or as predict(dataset.store) of a TrainedModel."
            )
        case Csl():
            from crawl.data.csl import csl

            return csl(data.fold, data.laplacian)
        case Counting():
            from crawl.data.counting import counting

            return counting(data.target)
        case Folder():
            from crawl.data.folder import from_folder

            shared = {name: getattr(data, name) for name in ("fractions", "bad_rows", "task", "metric")}
            shared |= {"target_columns": data.targets, "seed": seed, "weight_column": data.weight}
            shared |= {"split": _way_to_split(data)}
            return from_folder(existing_path(data, path), **shared)
        case TU():
            from crawl.data.tu import from_tu

            place = existing_path(data, path)
            return from_tu(place, split=_way_to_split(data), fractions=data.fractions, seed=seed, metric=data.metric)
        case Packed():
            from crawl.data.packed import open_packed, with_metric

            return with_metric(open_packed(existing_path(data, path)), data.metric)
        case Nodes():
            from crawl.data.node_folder import from_nodes

            names = ("label", "split", "fractions", "task", "metric", "directed", "batches")
            return from_nodes(existing_path(data, path), seed=seed, **{name: getattr(data, name) for name in names})
        case Links():
            from crawl.data.link_folder import from_link_folder

            return from_link_folder(existing_path(data, path), seed=seed, **vars(data))
        case Heterophilous():
            return load_benchmark(data.name, root, fold=data.fold, batches=data.batches)
        case Planetoid():
            return load_benchmark(data.name, root, batches=data.batches)
        case Social():
            return load_benchmark(data.name, root, fold=data.fold, has_validation=data.has_validation)
        case Superpixels():
            return load_benchmark(data.name, root, has_positions=data.has_positions)
    return load_benchmark(data.name, root)


def _molecules(data: Csv, seed: int, path: Path, val_path: str | Path | None, test_path: str | Path | None) -> Dataset:
    from crawl.data.molecules import from_csv

    if data.split != BY_FILE and (path.is_dir() or val_path is not None or test_path is not None):
        raise ValueError(f"Three files give the split, not data.split={data.split!r}: set data.split={BY_FILE!r}.")
    shared = {name: getattr(data, name) for name in ("bad_rows", "task", "metric")}
    return from_csv(
        path,
        data.smiles or None,
        data.targets,
        val_path=val_path,
        test_path=test_path,
        split=_way_to_split(data),
        fractions=None if data.split == BY_FILE else data.fractions,
        seed=seed,
        weight_column=data.weight,
        feature_columns=data.columns,
        descriptors=data.descriptors,
        level=data.level,
        **shared,
    )


def _way_to_split(data: OwnGraphs) -> str | Folds:
    return Folds(data.num_folds, data.fold, data.split) if data.num_folds else data.split


def _encoder(categories: tuple[int, ...], width: int, width_of_encodings: int, *, normalised: bool = False) -> Encoder:
    encoder = OneHot(categories) if categories else Dense(width, normalised=normalised)
    return WithEncodings(encoder, width_of_encodings) if width_of_encodings else encoder
