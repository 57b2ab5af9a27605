"""The models that come with the package: how they are trained, and how they get there."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crawl.checks import check_choice
from crawl.cli.output import say
from crawl.encodings.settings import Encodings
from crawl.runs import Csv, Experiment, Model, TrainedModel, resume_run, run_experiment
from crawl.runs.recipes import csl
from crawl.runs.run import Stopped
from crawl.training.settings import Cosine, Evaluation, Training
from crawl.walks.plan import WalkPlan

PACKAGE = Path(__file__).parents[1] / "src" / "crawl" / "pretrained"

_SPLIT = """with the fixed scaffold split of MUBen (Apache-2.0): the test split has scaffolds that the training split
does not have, which is harder than a random split."""
_ESOL = f"""It predicts logS, the logarithm of the solubility of a molecule in water in mol/l.

The data are ESOL (Delaney 2004, 1,128 molecules) as in MoleculeNet, {_SPLIT} Most of the molecules are small. The
settings followed one short trial, not a search."""
_LIPO = f"""It predicts logD, the logarithm of the octanol/water distribution coefficient of a molecule at pH 7.4.

The data are Lipophilicity (4,200 molecules of ChEMBL) as in MoleculeNet, {_SPLIT} It was trained for 30 epochs only,
with walks from half of the atoms, since 60 epochs took too long on a busy CPU. No settings were searched for."""
_CSL = """It tells apart the ten classes of cyclic skip link graphs of 41 nodes (Murphy et al. 2019), which message
passing cannot: a cycle with a further edge from each node to the one 2, 3, 4, 5, 6, 9, 11, 12, 13 or 16 steps ahead.
It knows nothing of other graphs, and answers for them all the same. Graphs and folds are made in code."""


@dataclass(frozen=True)
class Planned:
    """A model for the package.

    Attributes:
        experiment: How it is trained.
        about: What its card says besides.
        file: The table in the folder of data, or nothing if the data are made in code.
    """

    experiment: Experiment
    about: str
    file: str = ""


def _molecules(name: str, target: str, walk: WalkPlan, pool: Any, max_epochs: int, num_val_repeats: int) -> Experiment:
    """Walks and messages in turn, small enough for a CPU."""
    return Experiment(
        name=name,
        data=Csv(targets=(target,), split="split", metric="rmse", task="regression"),
        walk=walk,
        model=Model(("walk", "gine", "virtual_node"), hidden_channels=64, num_layers=3, pool=pool, dropout=0.1),
        training=Training(max_epochs=max_epochs, schedule=Cosine(), normalise_targets=True),
        evaluation=Evaluation(num_val_repeats=num_val_repeats, num_test_repeats=10),
        encodings=Encodings(return_steps=16),
    )


PLANNED = {
    "csl": Planned(
        replace(
            csl(),
            training=Training(max_epochs=100, schedule=Cosine()),
            evaluation=Evaluation(num_val_repeats=2, val_every=5, num_test_repeats=10),
        ),
        _CSL,
    ),
    "esol": Planned(
        _molecules("esol", "logS", WalkPlan(num_steps=25, num_eval_steps=75), "sum", 100, 2), _ESOL, "esol.csv.gz"
    ),
    "lipo": Planned(
        _molecules("lipo", "lipo", WalkPlan(num_steps=25, num_eval_steps=50, start_share=0.5), "mean", 30, 1),
        _LIPO,
        "lipo.csv.gz",
    ),
}


def make_pretrained(
    names: tuple[str, ...],
    out: Path,
    *,
    data: Path | None = None,
    package: Path = PACKAGE,
    minutes: float | None = None,
    device: str = "auto",
    planned: dict[str, Planned] | None = None,
) -> list[Path]:
    """Train what is not trained yet, in `out/NAME`, and save each model in `package/NAME`; the folders of these.

    Refuses a name that is not planned, and data that are not there. A run that is stopped after `minutes` resumes with
    the next call.
    """
    plans = PLANNED if planned is None else planned
    deadline, saved = math.inf if minutes is None else time.monotonic() + 60 * minutes, []
    for name in names or tuple(plans):
        check_choice("A model for the package", name, plans)
        plan, place = plans[name], out / name
        path = _file_of(plan, data)
        how: dict[str, Any] = {"device": device, "path": path, "stop": lambda: time.monotonic() >= deadline}
        try:
            if (place / "config.json").is_file():
                resume_run(place, **how)
            else:
                run_experiment(plan.experiment, place, **how)
        except Stopped as stopped:
            say(str(stopped))
            break
        saved.append(TrainedModel.load(place, "cpu").save_pretrained(package / name, about=plan.about, overwrite=True))
    return saved


def _file_of(plan: Planned, data: Path | None) -> Path | None:
    if not plan.file:
        return None
    files = [] if data is None else [data / plan.file, data / plan.file.removesuffix(".gz")]
    found = [file for file in files if file.is_file()]
    if not found:
        where = "give the folder with --data" if data is None else f"it is not in {data}"
        raise ValueError(f"{plan.experiment.name} needs {plan.file}, molecules with a split: {where}.")
    return found[0]
