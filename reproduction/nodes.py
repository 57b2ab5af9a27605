"""Beyond the paper: nodes of one graph. Searches by validation, and the recipes they led to beside message passing."""

from __future__ import annotations

from typing import Any

from crawl.data.benchmarks import BENCHMARKS
from crawl.runs.experiment import Experiment, Model
from crawl.runs.sources import Heterophilous, OneGraphData, Planetoid
from crawl.training.settings import Cosine, Evaluation, Training
from crawl.walks.plan import WalkPlan
from reproduction.plan import Row, Table

_MARKS = "[G]: from a machine-made list of published results; [M]: from memory, not read again in the paper."
_EFFORT = "Time is that of one run on a shared processor, memory the most that its process had."

# ---- searches


def _trial(
    data: OneGraphData,
    model: Model,
    walk: WalkPlan | None = None,
    *,
    epochs: int,
    lr: float,
    weight_decay: float = 0.0,
    val_every: int = 5,
    **training: Any,
) -> Experiment:
    """A training of one network on one graph, which depends on no recipe."""
    has_norms = model.norm == "batch" or (model.has_walks and model.norm == "layer")
    return Experiment(
        name=f"{data.name}-{'-'.join(model.layer)}",
        data=data,
        walk=walk,
        model=model,
        training=Training(
            lr=lr,
            max_epochs=epochs,
            schedule=Cosine(),
            optimiser="adamw" if weight_decay else "adam",
            weight_decay=weight_decay,
            **training,
        ),
        evaluation=Evaluation(
            num_val_repeats=1,
            val_every=val_every,
            num_norm_graphs=1000 if has_norms else 0,
            num_test_repeats=10 if model.has_walks else 1,
        ),
    )


_ON_CORA: dict[str, Any] = {
    **{"normalise_features": True, "input_dropout": 0.5, "head": "linear", "dropout": 0.5},
    **{"num_layers": 1, "hidden_channels": 64, "norm": "none"},
}
_CORA_WALKS = WalkPlan(num_steps=8, num_eval_steps=8, window_size=4, centred=True)


def _on_cora(
    *layer: str, walk: WalkPlan | None = None, decay: float = 1.0, epochs: int = 100, **model: Any
) -> Experiment:
    settings = _ON_CORA | ({"padding": True} if walk is not None else {}) | model
    return _trial(Planetoid("cora"), Model(layer, **settings), walk, epochs=epochs, lr=0.01, weight_decay=decay)


def _cora_trials() -> dict[str, Experiment]:
    return {
        "appnp": _on_cora("appnp", epochs=150),
        "appnp-decay-5": _on_cora("appnp", epochs=150, decay=5.0),
        "gcn": _on_cora("gcn", epochs=150, num_layers=2),
        "gcn-appnp": _on_cora("gcn", "appnp", epochs=150),
    }


_CORA = {  # label, network
    "hybrid": ("walks and APPNP", _on_cora("walk", "appnp", walk=_CORA_WALKS)),
    "crawl": ("CRaWl", _on_cora("walk", walk=_CORA_WALKS)),
    "appnp": ("APPNP", _on_cora("appnp")),
    "gcn": ("GCN", _on_cora("gcn", num_layers=2, residual=False)),
    "gine": ("GINE", _on_cora("gine", num_layers=2, residual=False)),
    "gated-gcn": ("GatedGCN", _on_cora("gated_gcn", num_layers=2, residual=False)),
}


def _search(name: str, trials: dict[str, Experiment], num_seeds: int) -> Table:
    benchmark = BENCHMARKS[name]
    table = f"search_{name}"
    rows = tuple(Row(short, f"{table}/{short}", trial, num_seeds, part="val") for short, trial in trials.items())
    seeds = "one seed" if num_seeds == 1 else f"{num_seeds} seeds"
    split = ", on the first split" if benchmark.num_folds else ""
    note = f"{len(rows)} trials of {seeds}{split}; their test scores are recorded, but choose nothing."
    title = f"{benchmark.title}, trials: validation {benchmark.task.metric}"
    return Table(table, title, rows, note=note, has_effort=True)


def search_cora() -> Table:
    """Trials for the recipe cora, by validation."""
    return _search("cora", _cora_trials(), 1)


def _minesweeper_trials() -> dict[str, Experiment]:
    data, walks = Heterophilous("minesweeper"), WalkPlan(num_steps=16, num_eval_steps=16, start_share=0.25)

    def trial(*layer: str, num_layers: int, walk: WalkPlan | None = None, lr: float = 0.01, **model: Any) -> Any:
        settings = {"hidden_channels": 32, "dropout": 0.2, "num_layers": num_layers} | model
        return _trial(data, Model(layer, **settings), walk, epochs=300, lr=lr, val_every=20)

    return {
        "gcn": trial("gcn", num_layers=8),
        "gin": trial("gin", num_layers=8),
        "sage": trial("sage", num_layers=8),
        "gated-gcn": trial("gated_gcn", num_layers=6),
        "walk": trial("walk", num_layers=4, walk=walks, padding=True),
        "walk-gcn": trial("walk", "gcn", "gcn", num_layers=4, walk=walks, padding=True),
        "walk-sage": trial("walk", "sage", "sage", num_layers=4, walk=walks, padding=True),
        "walk-gin": trial("walk", "gin", "gin", num_layers=4, walk=walks, padding=True),
    }


def search_minesweeper() -> Table:
    """Trials for the recipe minesweeper, by validation."""
    return _search("minesweeper", _minesweeper_trials(), 1)


def cora() -> Table:
    """Cora with the recipe cora, and message passing beside it."""
    rows = tuple(Row(label, f"cora/{name}", trial, 10) for name, (label, trial) in _CORA.items())
    return Table("cora", "Cora, public split: test accuracy", rows, has_effort=True)


NODE_TABLES = (search_cora, search_minesweeper, cora)
