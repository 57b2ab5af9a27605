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
from crawl.runs import Csv, Experiment, Model, TrainedModel, resume_run, run_ensemble, run_experiment
from crawl.runs.recipes import csl
from crawl.runs.run import Stopped
from crawl.training.settings import Cosine, CosinePerStep, Evaluation, Training
from crawl.walks.plan import WalkPlan
from reproduction.molecules import NUM_MEMBERS, networks

PACKAGE = Path(__file__).parents[1] / "src" / "crawl" / "pretrained"

_SPLIT = """with the fixed scaffold split of MUBen (Apache-2.0): the test split has scaffolds that the training split
does not have, which is harder than a random split."""
_FIVE = """It is an ensemble of five, the network of the table of molecules with the best
validation score; its settings were chosen by validation."""
_ESOL = f"""It predicts logS, the logarithm of the solubility of a molecule in water in mol/l.

The data are ESOL (Delaney 2004, 1,128 molecules) as in MoleculeNet, {_SPLIT} Most of the molecules are small.
{_FIVE}"""
_LIPO = f"""It predicts logD, the logarithm of the octanol/water distribution coefficient of a molecule at pH 7.4.

The data are Lipophilicity (4,200 molecules of ChEMBL) as in MoleculeNet, {_SPLIT} {_FIVE}"""
_ZINC = """It predicts the penalised logP of a drug-like molecule: logP minus the synthetic accessibility score and the
number of atoms beyond six in the longest ring, each normalised.

The data are the 12,000 molecules of the ZINC benchmark with its split, read from SMILES: so it sees more of an atom
than the published graphs, which have its element and charge alone, and its score is not one of that benchmark. It was
trained for a quarter of an hour on one core of a CPU; its settings were not searched for."""
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
        num_members: How many models it is, which predict together.
    """

    experiment: Experiment
    about: str
    file: str = ""
    num_members: int = 1


def _zinc() -> Experiment:
    """Walks and messages in turn, small enough for a CPU."""
    return Experiment(
        name="zinc",
        data=Csv(targets=("y",), split="split", metric="mae", task="regression"),
        walk=WalkPlan(num_steps=16, num_eval_steps=24, start_share=0.5),
        model=Model(("walk", "edge_update", "gine", "virtual_node"), hidden_channels=64, num_layers=3, pool="sum"),
        training=Training(
            lr=2e-3,
            max_epochs=60,
            schedule=CosinePerStep(),
            warmup_epochs=1,
            optimiser="adamw",
            weight_decay=0.1,
            normalise_targets=True,
        ),
        evaluation=Evaluation(num_val_repeats=1, val_every=3, num_test_repeats=10),
        encodings=Encodings(return_steps=16, longest_cycle=8),
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
    "esol": Planned(networks("esol")["crawl"], _ESOL, "esol.csv.gz", NUM_MEMBERS),
    "lipo": Planned(networks("lipo")["crawl"], _LIPO, "lipo.csv.gz", NUM_MEMBERS),
    "zinc": Planned(_zinc(), _ZINC, "zinc12k.csv.gz"),
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
            if plan.num_members > 1:
                run_ensemble(plan.experiment, place, num_members=plan.num_members, **how)
            elif (place / "config.json").is_file():
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
