"""Recipes beyond the paper: networks of walks, message passing and structural encodings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from crawl.encodings.settings import Encodings
from crawl.runs.experiment import Experiment, Model
from crawl.runs.sources import Benchmark, Social, SocialName, SuperpixelName, Superpixels
from crawl.training.settings import CosinePerStep, Evaluation, Training
from crawl.walks.plan import WalkPlan

_TRAINING = Training(
    lr=2e-3,
    batch_size=100,
    max_epochs=1000,
    schedule=CosinePerStep(),
    optimiser="adamw",
    weight_decay=0.2,
    warmup_epochs=10,
)


def zinc_hybrid() -> Experiment:
    """ZINC with walks, edge states, message passing and structural encodings; a first choice, by eight trials."""
    return Experiment(
        name="zinc_hybrid",
        data=Benchmark("zinc"),
        walk=WalkPlan(num_steps=25),
        model=Model(("walk", "edge_update", "gine", "virtual_node"), hidden_channels=80, num_layers=5, pool="sum"),
        training=replace(_TRAINING, max_epochs=800),
        evaluation=Evaluation(val_every=10),
        encodings=Encodings(return_steps=20, walk_steps=20, longest_cycle=8),
    )


def peptides_hybrid() -> Experiment:
    """PEPTIDES-FUNC with walks, message passing and return probabilities; a first choice, not yet searched for."""
    return Experiment(
        name="peptides_hybrid",
        data=Benchmark("peptides_func"),
        walk=WalkPlan(start_share=0.2, window_size=16),
        model=Model(
            ("walk", "gine", "virtual_node"), hidden_channels=88, num_layers=5, kernel_size=9, pool="mean", dropout=0.1
        ),
        training=replace(_TRAINING, lr=1e-3, max_epochs=300, weight_decay=0.1, warmup_epochs=5),
        evaluation=Evaluation(val_every=5, num_test_repeats=5),
        encodings=Encodings(return_steps=20),
    )


def counting_hybrid() -> Experiment:
    """All four substructures at once, with walks and message passing; a first choice, not yet searched for.

    Encodings that count cycles are left out: they would be the answer.
    """
    return Experiment(
        name="counting_hybrid",
        data=Benchmark("counting_all"),
        walk=WalkPlan(num_steps=150),
        model=Model(("walk", "gine"), hidden_channels=128, num_layers=6, pool="sum"),
        training=replace(_TRAINING, lr=1e-3, batch_size=20, weight_decay=0.05, average_decay=0.999),
        evaluation=Evaluation(val_every=10, num_norm_graphs=1500),
    )


def _social(name: SocialName, max_epochs: int) -> Callable[[], Experiment]:
    def recipe() -> Experiment:
        return Experiment(
            name=f"{name}_hybrid",
            data=Social(name),
            model=Model(("walk", "gine"), hidden_channels=64, num_layers=3, pool="mean", dropout=0.5),
            training=replace(_TRAINING, lr=1e-3, max_epochs=max_epochs, weight_decay=0.1, warmup_epochs=5),
            evaluation=Evaluation(track_test=True),
            encodings=Encodings(return_steps=16, degree=True),
        )

    recipe.__name__ = f"{name}_hybrid"
    recipe.__doc__ = (
        f"The graphs of {name} with walks, message passing, degrees and return probabilities; a first choice."
    )
    return recipe


collab_hybrid = _social("collab", 100)
imdb_multi_hybrid = _social("imdb_multi", 200)
reddit_binary_hybrid = _social("reddit_binary", 100)


def _superpixels(name: SuperpixelName) -> Callable[[], Experiment]:
    def recipe() -> Experiment:
        return Experiment(
            name=f"{name}_hybrid",
            data=Superpixels(name, has_positions=True),
            walk=WalkPlan(num_steps=25, num_eval_steps=50, start_share=0.5),
            model=Model(
                ("walk", "edge_update", "gine", "virtual_node"),
                hidden_channels=40,
                num_layers=4,
                pool="mean",
                dropout=0.1,
            ),
            training=replace(_TRAINING, batch_size=200, max_epochs=100, weight_decay=0.1, warmup_epochs=5),
            evaluation=Evaluation(num_val_repeats=1, val_every=5),
            encodings=Encodings(return_steps=16),
        )

    recipe.__name__ = f"{name}_hybrid"
    recipe.__doc__ = (
        f"Superpixels of {name} with their positions, walks, edge states and message passing; a first choice."
    )
    return recipe


mnist_hybrid = _superpixels("mnist")
cifar10_hybrid = _superpixels("cifar10")

HYBRIDS = (
    *(zinc_hybrid, peptides_hybrid, counting_hybrid, collab_hybrid, imdb_multi_hybrid, reddit_binary_hybrid),
    *(mnist_hybrid, cifar10_hybrid),
)
