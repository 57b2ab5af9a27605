"""Several models of one experiment, trained on the same split with seeds of their own, that predict together."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from crawl.checks import as_path, check_type, truth, whole_number
from crawl.data.dataset import Dataset
from crawl.files import parse_json, write_atomically
from crawl.plain import read_checked, structure
from crawl.runs.calibration import Calibration
from crawl.runs.cluster.connection import Cluster
from crawl.runs.environment import both_commits
from crawl.runs.experiment import Experiment, GivenModel, suited
from crawl.runs.folder import RunFolder
from crawl.runs.progress import lines
from crawl.runs.recipes import RECIPES
from crawl.runs.records import check_record, scores_of
from crawl.runs.reports.run_page import write_run_page
from crawl.runs.run import Result, read_dataset
from crawl.runs.several import run_all
from crawl.runs.sources import GivenData
from crawl.runs.stored import MOST_MEMBERS
from crawl.runs.together import refuse_several
from crawl.runs.trained import TrainedModel
from crawl.runs.uncertainty import is_calibrated
from crawl.runs.where import Where
from crawl.training.evaluation import targets_of
from crawl.training.ranks import Ranks
from crawl.training.seeds import derive_seed
from crawl.training.trainer import choose_device


@dataclass(frozen=True)
class Ensemble:
    """What an ensemble is to be: the content of `ensemble.json`.

    Attributes:
        experiment: What each member does, except for its seed.
        num_members: How many models there are.
    """

    experiment: Experiment
    num_members: int

    def __post_init__(self) -> None:
        whole_number("num_members", self.num_members, 2, MOST_MEMBERS)
        if isinstance(self.experiment.model, GivenModel):
            raise ValueError("The members of an ensemble are built by their seeds: experiment.model must be a Model.")

    def to_json(self) -> str:
        """The ensemble as JSON."""
        values = {"experiment": json.loads(self.experiment.to_json()), "num_members": self.num_members}
        return json.dumps(values, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Ensemble:
        """What `to_json` wrote. Refuses other content."""
        found = structure(_Plain, parse_json(text), "The ensemble")
        return cls(Experiment.from_plain(found.experiment), found.num_members)

    @property
    def members(self) -> dict[str, Experiment]:
        """The experiment of each member, by the name of its folder: all have the split of the ensemble's seed."""
        seed, is_drawn = self.experiment.seed, self.experiment.draws_split
        split_seed = self.experiment.data_seed if is_drawn else None
        return {
            f"member-{i}": replace(self.experiment, seed=derive_seed(seed, "member", i) % 2**31, split_seed=split_seed)
            for i in range(1, self.num_members + 1)
        }


@dataclass(frozen=True)
class _Plain:
    experiment: dict[str, Any]
    num_members: int


def run_ensemble(
    experiment: Experiment,
    folder: Path | str | None = None,
    *,
    num_members: int = 5,
    dataset: Dataset | None = None,
    quiet: bool | None = None,
    stop: Callable[[], bool] | None = None,
    cluster: Cluster | None = None,
    **where: str | Path | None,
) -> Result:
    """Train several models that differ in their seeds only, in `folder/member-K`, and evaluate what they say together.

    In a folder where this ensemble was stopped, it is resumed: finished members are read. `TrainedModel.load(folder)`
    predicts with all members; the spread over models is kept apart from that over walks.

    Args:
        experiment: What each member does. Their seeds are derived from its seed; a split that is drawn is that of its
            seed, so all members have the same.
        folder: Where to write; the first free `runs/NAME-ensemble-K` when None.
        num_members: How many models to train, at least 2.
        dataset: A data set of one's own, which is given again to resume; else that of `experiment.data`.
        quiet: Show no progress, as in `run_experiment`.
        stop: Asked after every epoch whether to stop there, as in `run_experiment`.
        cluster: Where to train the members, as in `run_folds`; their evaluation together is in this process.
        where: `device` and the places of the data, as in `run_experiment`.

    Returns:
        The folder, and a record as that of a run, whose scores are those of the mean over members; `ensemble` has the
        scores of the members.

    Raises:
        ValueError: If the experiment or the data are wrong, or the folder is of something else.
        Stopped: If it was asked to stop before training was over.
    """
    check_type("experiment", experiment, Experiment)
    if quiet is not None:
        truth("quiet", quiet)
    refuse_several(Ranks.of_this_process(), "An ensemble", "train it in one process")
    place = Where().moved(**where)  # type: ignore[arg-type]
    kind = choose_device(place.device).type if cluster is None else cluster.device
    dataset = read_dataset(experiment, place, quiet, dataset)
    if dataset.source != experiment.data:
        experiment = replace(experiment, data=GivenData())
    base = RECIPES.get(experiment.data.name, Experiment)()
    experiment = suited(experiment, dataset, kind, base)
    ensemble = Ensemble(experiment, num_members)
    path = None if folder is None else as_path("folder", folder)
    if path is not None and RunFolder(path).ensemble.is_file():
        if read_ensemble(path) != ensemble:
            raise ValueError(f"{path} holds another ensemble: choose another folder.")
        run = RunFolder(path)
    else:
        run = RunFolder.create(path, f"{experiment.name}-ensemble")
        place.write(run)
        write_atomically(run.ensemble, ensemble.to_json())
    return _trained(run, ensemble, dataset, place, quiet, stop, cluster)


def resume_ensemble(
    folder: Path | str,
    *,
    dataset: Dataset | None = None,
    quiet: bool | None = None,
    stop: Callable[[], bool] | None = None,
    cluster: Cluster | None = None,
    **where: str | Path | None,
) -> Result:
    """Train the rest of an ensemble that was stopped; a finished one is only read.

    The arguments are those of `run_ensemble`; what is left out is as it was.
    """
    refuse_several(Ranks.of_this_process(), "An ensemble", "train it in one process")
    run = RunFolder(as_path("folder", folder))
    ensemble, place = read_ensemble(run.path), Where.read(run).moved(**where)  # type: ignore[arg-type]
    if run.result.is_file():
        return Result(run.path, read_checked(run.result, lambda text: check_record(parse_json(text)), "run it again"))
    dataset = read_dataset(ensemble.experiment, place, quiet, dataset)
    return _trained(run, ensemble, dataset, place, quiet, stop, cluster)


def read_ensemble(folder: Path) -> Ensemble:
    """What the ensemble in a folder is to be. Refuses a folder that has none."""
    file = RunFolder(folder).ensemble
    if not file.is_file():
        raise ValueError(f"{folder} is not the folder of an ensemble: it has no ensemble.json.")
    return read_checked(file, Ensemble.from_json, "remove the folder and train it again")


def member_results(folder: Path) -> list[Result]:
    """The results of the members of a finished ensemble, in their order."""
    places = [folder / name for name in read_ensemble(folder).members]
    return [Result(place, parse_json(RunFolder(place).result.read_text())) for place in places]


def _trained(
    run: RunFolder,
    ensemble: Ensemble,
    dataset: Dataset,
    where: Where,
    quiet: bool | None,
    stop: Callable[[], bool] | None,
    cluster: Cluster | None,
) -> Result:
    how: dict[str, Any] = {"dataset": dataset, "cluster": cluster, "quiet": quiet, "stop": stop}
    results = run_all(ensemble.members, run.path, vars(where), **how)
    with run.locked(), lines(f"{run.path}: evaluating {len(results)} models together", quiet):
        here = where if cluster is None else replace(where, device="auto")
        record = _record(run, ensemble, dataset, results, here)
        write_atomically(run.result, json.dumps(record, indent=2) + "\n")
        write_run_page(run.path)
    return Result(run.path, record)


def _record(
    run: RunFolder, ensemble: Ensemble, dataset: Dataset, results: Sequence[Result], where: Where
) -> dict[str, Any]:
    """What is known about a trained ensemble; writes its predictions for the test part, and its calibration."""
    trained = TrainedModel.of_members([TrainedModel.load(result.folder, where.device) for result in results])
    experiment, found, scores = ensemble.experiment, {}, {}
    for part in ("val", "test"):
        ids = getattr(dataset.split, part)
        targets = targets_of(dataset.store, ids)
        predictions = trained.predict(dataset.store.subset(ids), seed=experiment.seed % 2**63)
        found[part], scores[part] = (predictions, targets), scores_of(predictions, targets)
    run.write_predictions(dataset, *found["test"])
    records = [result.record for result in results]
    record = {
        "config": json.loads(experiment.to_json()),
        "seed": experiment.seed,
        **{name: records[0][name] for name in ("data", "num_graphs", "num_skipped", "metric", "device", "versions")},
        "scores": scores,
        "ensemble": _of_members(ensemble, records),
        **{name: sum(each[name] for each in records) for name in ("num_epochs", "num_parameters", "wall_time_s")},
        "commit": records[0]["commit"],
    }
    for other in records[1:]:
        record["commit"] = both_commits(record["commit"], other["commit"])
    if is_calibrated(experiment.data, dataset):
        try:
            calibration = Calibration.of(*found["val"], trained.digest)
        except ValueError as error:
            return record | {"calibration": {"reason": f"{error}"}}
        write_atomically(run.calibration, calibration.to_json())
        record["calibration"] = calibration.record(found)
    return record


def _of_members(ensemble: Ensemble, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The score of each member, and of each part their mean and standard deviation."""
    members: list[dict[str, Any]] = []
    for (name, experiment), record in zip(ensemble.members.items(), records, strict=True):
        scores = {part: score["mean"] for part, score in record["scores"].items()}
        members.append({"folder": name, "seed": experiment.seed, "scores": scores})
    summary: dict[str, Any] = {"num_members": len(members), "members": members}
    for part in ("val", "test"):
        values = [member["scores"].get(part) for member in members]
        known = np.array([value for value in values if value is not None])
        is_whole = len(known) == len(values)
        summary[part] = {
            "mean": float(known.mean()) if is_whole else None,
            "deviation": float(known.std()) if is_whole else None,
        }
    return summary
