"""Beyond the paper: nodes of one graph. Searches by validation, and the recipes they led to beside message passing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crawl.data.benchmarks import BENCHMARKS
from crawl.runs.experiment import Experiment, Model
from crawl.runs.recipes import with_closed_batches
from crawl.runs.sources import Heterophilous, HeterophilousName, OneGraphData, Planetoid
from crawl.training.settings import Constant, Cosine, Evaluation, ScheduleSettings, Step, Training
from crawl.walks.plan import WalkPlan
from reproduction.plan import PlannedRun, Published, Row, Table

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


def _penalised(
    *layer: str,
    walk: WalkPlan | None = None,
    decay: float = 0.005,
    epochs: int = 300,
    schedule: ScheduleSettings | None = None,
    **model: Any,
) -> Experiment:
    """A network for Cora, trained with an L2 penalty instead of decoupled weight decay. The learning rate stays as it
    is, unless a schedule is given."""
    schedule = Step(step_epoch=epochs) if schedule is None else schedule  # the rate falls when training is over
    rates = {"dropout": 0.6, "input_dropout": 0.6}
    trial = _on_cora(*layer, walk=walk, decay=decay, epochs=epochs, **(rates | model))
    return replace(trial, training=replace(trial.training, optimiser="adam", schedule=schedule))


def _cora_trials() -> dict[str, Experiment]:
    return {
        "appnp": _on_cora("appnp", epochs=150),
        "appnp-decay-5": _on_cora("appnp", epochs=150, decay=5.0),
        "gcn": _on_cora("gcn", epochs=150, num_layers=2),
        "gcn-appnp": _on_cora("gcn", "appnp", epochs=150),
        "appnp-l2": _penalised("appnp"),
        "appnp-l2-less-dropout": _penalised("appnp", dropout=0.5, input_dropout=0.5),
        "appnp-l2-cosine": _penalised("appnp", schedule=Cosine()),
        "gcn-l2": _penalised("gcn", num_layers=2, residual=False),
        "walk-appnp-l2": _penalised("walk", "appnp", walk=_CORA_WALKS),
        "appnp-l2-long": _penalised("appnp", epochs=600),
        "gcn-small-l2": _penalised("gcn", decay=0.0005, num_layers=2, residual=False),
        "gcn-appnp-small-l2": _penalised("gcn", "appnp", decay=0.0005, residual=False),
        "gcn2-l2": _penalised("gcn2"),
        "gcn2-small-l2": _penalised("gcn2", decay=0.001),
        "gcn2-tiny-l2": _penalised("gcn2", decay=0.0003),
        "gcn-medium-l2": _penalised("gcn", decay=0.0015, num_layers=2, residual=False),
    }


def _search(name: str, trials: dict[str, Experiment], shared: dict[str, str] | None = None) -> Table:
    """The table of trials of one seed. Some are runs of another table, at the places in `shared`."""
    benchmark, rows = BENCHMARKS[name], []
    for short, trial in trials.items():
        given = (PlannedRun(shared[short], trial),) if shared and short in shared else ()
        rows.append(Row(short, f"search_{name}/{short}", trial, part="val", given=given))
    split = ", on the first split" if benchmark.num_folds else ""
    note = f"{len(rows)} trials of one seed{split}; their test scores are recorded, but choose nothing. {_EFFORT}"
    title = f"{benchmark.title}, trials: validation {benchmark.task.metric}"
    return Table(f"search_{name}", title, tuple(rows), note=note, has_effort=True)


def search_cora() -> Table:
    """Trials for the recipe cora, by validation."""
    return _search("cora", _cora_trials())


_SHORT_WALKS = WalkPlan(num_steps=16, num_eval_steps=16, start_share=0.25)


def _deep(
    name: HeterophilousName,
    *layer: str,
    num_layers: int,
    walk: WalkPlan | None = None,
    padding: bool = False,
    channels: int = 32,
    dropout: float = 0.2,
    epochs: int = 300,
    val_every: int = 20,
    **training: Any,
) -> Experiment:
    model = Model(layer, hidden_channels=channels, num_layers=num_layers, dropout=dropout, padding=padding)
    return _trial(Heterophilous(name), model, walk, epochs=epochs, lr=0.01, val_every=val_every, **training)


def _deeper(
    *layer: str, num_layers: int, channels: int = 64, dropout: float = 0.5, epochs: int = 600, **training: Any
) -> Experiment:
    """A network for Minesweeper with layers of 64 channels and much dropout, trained for long."""
    walk: dict[str, Any] = {"walk": _SHORT_WALKS, "padding": True} if "walk" in layer else {}
    how: dict[str, Any] = {"num_layers": num_layers, "channels": channels, "dropout": dropout, "epochs": epochs}
    return _deep("minesweeper", *layer, **how, **walk, **training)


_WALKS_AND_TWELVE = ("walk", *["sage"] * 4)


def _deep_networks() -> dict[str, tuple[str, Experiment]]:
    """Labels and trainings of deep networks for Minesweeper; the first is the network of the recipe."""
    return {
        "sage-20": ("GraphSAGE, 20 layers", _deeper("sage", num_layers=20)),
        "sage-15": ("GraphSAGE, 15 layers", _deeper("sage", num_layers=15)),
        "walk-sage-15": ("walks, then 15 layers of GraphSAGE", _deeper("walk", *["sage"] * 15, num_layers=1)),
        "deep": ("three times walks and 4 layers of GraphSAGE", _deeper(*_WALKS_AND_TWELVE, num_layers=3)),
        "gcn-15": ("GCN, 15 layers", _deeper("gcn", num_layers=15)),
        "gine-15": ("GINE, 15 layers", _deeper("gine", num_layers=15)),
        "gated-gcn-15": ("GatedGCN, 15 layers", _deeper("gated_gcn", num_layers=15)),
    }


def _networks(name: HeterophilousName) -> dict[str, tuple[str, Experiment]]:
    """Labels and trainings of networks of 32 channels with eight layers that pass messages."""
    walk: dict[str, Any] = {"walk": _SHORT_WALKS, "padding": True}
    return {
        "hybrid": ("walks and GraphSAGE", _deep(name, "walk", "sage", "sage", num_layers=4, **walk)),
        "crawl": ("CRaWl", _deep(name, "walk", num_layers=4, **walk)),
        "sage": ("GraphSAGE", _deep(name, "sage", num_layers=8)),
        "gcn": ("GCN", _deep(name, "gcn", num_layers=8)),
        "gine": ("GINE", _deep(name, "gine", num_layers=8)),
        "gated-gcn": ("GatedGCN", _deep(name, "gated_gcn", num_layers=8)),
    }


def _minesweeper() -> dict[str, tuple[str, Experiment]]:
    small = {name: (f"{label}, small", trial) for name, (label, trial) in _networks("minesweeper").items()}
    return _deep_networks() | small


def search_minesweeper() -> Table:
    """Trials for the recipe minesweeper, by validation."""
    networks = _minesweeper()
    own = {
        "gin": _deep("minesweeper", "gin", num_layers=8),
        "sage-15-less-dropout": _deeper("sage", num_layers=15, dropout=0.2, epochs=300),
        "deep-less-dropout": _deeper(*_WALKS_AND_TWELVE, num_layers=3, dropout=0.2, epochs=300),
        "sage-15-long": _deeper("sage", num_layers=15, epochs=2000),
        "sage-15-more-dropout": _deeper("sage", num_layers=15, dropout=0.6),
        "sage-15-wide": _deeper("sage", num_layers=15, channels=128),
    }
    names = ("gcn", "sage", "crawl", "hybrid", "deep", "walk-sage-15", "sage-15", "sage-20")
    shared = {name: f"minesweeper/{name}/seed-0-fold-0" for name in names}
    return _search("minesweeper", own | {name: networks[name][1] for name in names}, shared)


def _on_tolokers(
    *layer: str, num_layers: int = 3, channels: int = 64, dropout: float = 0.5, epochs: int = 400
) -> Experiment:
    walk: dict[str, Any] = {"walk": _SHORT_WALKS, "padding": True} if "walk" in layer else {}
    how: dict[str, Any] = {"num_layers": num_layers, "channels": channels, "dropout": dropout, "epochs": epochs}
    return _deep("tolokers", *layer, val_every=10, **how, **walk)


def _tolokers() -> dict[str, tuple[str, Experiment]]:
    """Labels and trainings of networks for Tolokers; the first is the network of the recipe."""
    return {
        "walk-sage-gcn-long": ("walks, GraphSAGE and GCN", _on_tolokers("walk", "sage", "gcn")),
        "sage-gcn-long": ("GraphSAGE and GCN", _on_tolokers("sage", "gcn")),
        "crawl": ("CRaWl", _on_tolokers("walk")),
        "gcn": ("GCN", _on_tolokers("gcn", num_layers=6)),
        "gine": ("GINE", _on_tolokers("gine", num_layers=6)),
        "gated-gcn": ("GatedGCN", _on_tolokers("gated_gcn", num_layers=6)),
        "gated-gcn-small": ("GatedGCN, small", _on_tolokers("gated_gcn", channels=32, epochs=100)),
        "hybrid": ("walks and GraphSAGE, small", _networks("tolokers")["hybrid"][1]),
    }


def search_tolokers() -> Table:
    """Trials for the recipe tolokers, by validation."""
    less: dict[str, Any] = {"dropout": 0.3, "epochs": 150}
    trials = {
        "walk-sage-gcn": _on_tolokers("walk", "sage", "gcn", **less),
        "walk-gcn": _on_tolokers("walk", "gcn", **less),
        "walk-gcn-ff": _on_tolokers("walk", "gcn", "feed_forward", **less),
        "sage-gcn": _on_tolokers("sage", "gcn", **less),
    }
    shared = {name: f"tolokers/{name}/seed-0-fold-0" for name in ("walk-sage-gcn-long", "sage-gcn-long", "hybrid")}
    return _search("tolokers", trials | {name: _tolokers()[name][1] for name in shared}, shared)


# ---- what the recipes reach


def _of_folds(
    name: HeterophilousName,
    networks: dict[str, tuple[str, Experiment]],
    published: dict[str, Published],
    others: str,
) -> Table:
    benchmark = BENCHMARKS[name]
    rows = tuple(
        Row(label, f"{name}/{short}", trial, 1, benchmark.num_folds, published.get(short))
        for short, (label, trial) in networks.items()
    )
    title = f"{benchmark.title}: test {benchmark.task.metric}, {benchmark.num_folds} splits"
    return Table(name, title, rows, note=f"{others} {_MARKS} {_EFFORT}", has_effort=True)


def minesweeper() -> Table:
    """Minesweeper with the recipe minesweeper, and message passing beside it, trained alike."""
    others = (
        "Published beside it, of walks and message passing: NeuralWalker. Leaders: BuNN 0.9899, tuned GAT 0.979 [M]."
    )
    note = f"{others} The small networks have 32 channels, eight layers of messages and 300 epochs instead of 600."
    return _of_folds("minesweeper", _minesweeper(), {"walk-sage-15": Published(0.978, mark="[M]")}, note)


def tolokers() -> Table:
    """Tolokers with the recipe tolokers, and message passing beside it, trained alike."""
    others = "Published beside it, of walks and message passing: NeuralWalker. Leader: Polynormer 0.859 [M]."
    note = f"{others} The small GatedGCN has three layers of 32 channels and 100 epochs instead of 400."
    return _of_folds("tolokers", _tolokers(), {"walk-sage-gcn-long": Published(0.856, mark="[M]")}, note)


def cora() -> Table:
    """Cora with the recipe cora, and walks and message passing beside it."""
    alone: dict[str, Any] = {"num_layers": 2, "residual": False}
    networks = {
        "appnp-l2": ("APPNP", _penalised("appnp", schedule=Constant())),
        "walk-appnp-l2": ("walks and APPNP", _penalised("walk", "appnp", walk=_CORA_WALKS, schedule=Constant())),
        "gcn2-l2": ("GCNII", _penalised("gcn2", decay=0.001, schedule=Constant())),
        "appnp": ("APPNP, with AdamW", _on_cora("appnp")),
        "hybrid": ("walks and APPNP, with AdamW", _on_cora("walk", "appnp", walk=_CORA_WALKS)),
        "crawl": ("CRaWl", _on_cora("walk", walk=_CORA_WALKS)),
        "gcn": ("GCN", _on_cora("gcn", **alone)),
        "gine": ("GINE", _on_cora("gine", **alone)),
        "gated-gcn": ("GatedGCN", _on_cora("gated_gcn", **alone)),
    }
    published = {"walk-appnp-l2": Published(0.841, mark="[G]"), "gcn": Published(0.857, mark="[G]")}
    rows = tuple(
        Row(label, f"cora/{name}", trial, 10, published=published.get(name))
        for name, (label, trial) in networks.items()
    )
    others = (
        "The first three were trained with an L2 penalty, the others with AdamW for 100 epochs, which validation "
        "prefers for GCN. Published beside walks and APPNP is RUM, a network of walks; beside GCN, a tuned one, which "
        "may have other splits."
    )
    note = f"{others} {_MARKS} {_EFFORT}"
    return Table("cora", "Cora, public split: test accuracy", rows, note=note, has_effort=True)


def _closed(full: Experiment, num_walks: int, num_eval_walks: int | None = None, **training: Any) -> Experiment:
    """The same network, trained on closed batches of 250 targets with some walks around each."""
    closed = with_closed_batches(full)
    assert closed.walk is not None
    walk = replace(closed.walk, num_walks=num_walks, num_eval_walks=num_eval_walks)
    training_of_closed = replace(closed.training, batch_size=250, **training)
    return replace(closed, name="tolokers-closed", walk=walk, training=training_of_closed)


def tolokers_batches() -> Table:
    """Closed batches beside the full graph on Tolokers: CRaWl, as in the table tolokers."""
    full = _tolokers()["crawl"][1]
    more = _closed(full, 8, 64, max_epochs=40, lr=0.01)
    settings = {
        "closed": ("2 walks", _closed(full, 2, max_epochs=20, lr=0.003)),
        "closed-8": ("8 walks, 64 in evaluation", replace(more, evaluation=replace(more.evaluation, val_every=4))),
    }
    num_folds = BENCHMARKS["tolokers"].num_folds
    rows = [Row("the full graph", "tolokers/crawl", full, 1, num_folds, own_name="full")]
    for name, (label, trial) in settings.items():
        rows.append(Row(f"closed batches, {label}", f"tolokers_batches/{name}", trial, 1, num_folds))
    title = "Tolokers, closed batches and the full graph: test roc_auc, 10 splits"
    note = f"Closed batches train for 40 epochs, with 2 walks for 20, and take the same walks of 16 steps. {_EFFORT}"
    return Table("tolokers_batches", title, tuple(rows), note=note, has_effort=True)


NODE_TABLES = (search_cora, search_minesweeper, search_tolokers, cora, minesweeper, tolokers, tolokers_batches)
