"""From the plain values of an experiment to a data set and a model."""

from __future__ import annotations

import threading
from dataclasses import replace

import torch

from crawl.checks import check_type
from crawl.data.benchmarks import BENCHMARKS, load_benchmark
from crawl.data.dataset import Dataset
from crawl.models import CRaWl, Network
from crawl.nn.blocks import BLOCKS
from crawl.nn.conv import CRaWlConv
from crawl.nn.encoders import Dense, Encoder, OneHot
from crawl.runs.effect import existing_path, plain, settle_data
from crawl.runs.experiment import Data, Experiment
from crawl.runs.features import Features
from crawl.training.seeds import derive_seed

WIDTH_STEP = 4  # widths of message passing are multiples of it: the number of heads of `gat`
_DRAWING = threading.Lock()  # weights are drawn with torch's generator, of which there is one


def build_model(experiment: Experiment, features: Features, eval_start_share: float = 1.0) -> Network:
    """The model of an experiment, with weights drawn from its seed; walks of an evaluation start at a share of nodes.

    Nodes without features get a constant 1, edges without features a channel that is always 0: as in the paper, a model
    without structural bits can then only guess on regular graphs.
    """
    check_type("experiment", experiment, Experiment)
    settings, walk, task = experiment.model, experiment.walk, features.task
    node_encoder = _encoder(features.node_categories, features.num_node_features)
    edge_encoder = _encoder(features.edge_categories, features.num_edge_features)
    pool = None if task.level == "node" else settings.pool
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(experiment.seed, "weights"))
        if settings.name != "crawl":
            if eval_start_share != 1:
                raise ValueError(f"A {settings.name} does not walk: leave out eval_start_share.")
            return Network(
                node_encoder,
                task.num_outputs,
                layer=(settings.name,),
                hidden_channels=settings.hidden_channels,
                num_layers=settings.num_layers,
                edge_dim=edge_encoder if BLOCKS[settings.name].sees_edges else None,
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
            eval_start_share=eval_start_share,
            p=1.0 if walk.p is None else walk.p,
            q=1.0 if walk.q is None else walk.q,
        )
    layer = next(module for module in model.modules() if isinstance(module, CRaWlConv))
    shortest = min(walk.num_steps, walk.num_eval_steps)
    if shortest + 1 < layer.kernel_size:  # said here, before anything is trained or a folder is made
        raise ValueError(
            f"Walks of {shortest} steps are shorter than one window of {layer.kernel_size} nodes: take more."
        )
    return model


def count_parameters(experiment: Experiment, features: Features) -> int:
    """The number of parameters of the model of an experiment."""
    return sum(parameter.numel() for parameter in build_model(experiment, features).parameters())


def load_dataset(data: Data, seed: int = 0) -> Dataset:
    """The data set of an experiment.

    Raises:
        ValueError: If it cannot be read; the message says where and what to do.
    """
    return read_by(data, _load(settle_data(data), seed))


def read_by(data: Data, dataset: Dataset) -> Dataset:
    """The data set, with a note of the settings that it was read by."""
    noted = replace(dataset)
    object.__setattr__(noted, "source", plain(data))
    return noted


def _load(data: Data, seed: int) -> Dataset:
    if data.name == "given":
        raise ValueError(
            "This run was started in Python with a data set of its own: give the data set again, to resume_run("
            "folder, dataset=…) or to TrainedModel.load(folder).predict(dataset.store)."
        )
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
    path = existing_path(data)
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


def _encoder(categories: tuple[int, ...], width: int) -> Encoder:
    return OneHot(categories) if categories else Dense(max(width, 1))
