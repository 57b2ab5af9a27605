"""Trials of settings with Optuna: each is trained, validated after every epoch, and pruned if others were better."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawl.checks import as_path, check_type, positive_number, whole_number
from crawl.data.dataset import Dataset
from crawl.runs.cluster.connection import Cluster
from crawl.runs.experiment import Experiment, suited
from crawl.runs.features import Features
from crawl.runs.folder import RunFolder
from crawl.runs.run import Result
from crawl.runs.several import refuse_given
from crawl.runs.together import refuse_several
from crawl.runs.tuning.search import Search
from crawl.runs.tuning.shared import share_trials
from crawl.runs.tuning.space import search_space
from crawl.runs.where import Where
from crawl.training.evaluation import targets_of
from crawl.training.metrics import why_no_score
from crawl.training.ranks import Ranks
from crawl.training.seeds import derive_seed
from crawl.training.trainer import choose_device

if TYPE_CHECKING:
    import optuna

_WARM_UP = 10  # epochs before a trial may be pruned
_STARTED = 5  # trials that are never pruned
JOURNAL = "study.journal"


@dataclass(frozen=True)
class Tuned:
    """What a search found.

    Attributes:
        folder: Where its files are.
        best: The best settings by validation, and what to type to train with them: the content of `best.json`.
        result: The run with these settings, in `best`, whose test part was scored once.
        study: All trials, as Optuna has them.
    """

    folder: Path
    best: dict[str, Any]
    result: Result
    study: optuna.Study


def tune(
    base: Experiment,
    recipe: str,
    recipe_settings: Experiment,
    folder: Path | str,
    dataset: Dataset,
    *,
    num_trials: int = 50,
    minutes: float | None = None,
    max_parameters: int | None = None,
    where: Where | None = None,
    quiet: bool | None = None,
    cluster: Cluster | None = None,
) -> Tuned:
    """Search settings for an experiment in a folder, then train with the best of them. Resumes a search of the folder.

    The first trial has the settings of the experiment itself. The validation part alone chooses; the test part is
    scored once, at the end, for the best settings.

    Args:
        base: The experiment; what it has changed in its recipe is not searched.
        recipe: The name of the recipe.
        recipe_settings: The experiment of the recipe.
        folder: Where to write: `study.journal` (Optuna's), `trial-0001` and so on with `config.json` and
            `metrics.jsonl` of each trial, `best.json` and the run `best`.
        dataset: The data of the experiment.
        num_trials: Trials in all, those of earlier calls included.
        minutes: Let no trial begin or continue after this time of this call; the run at the end comes after it.
        max_parameters: Let no trial have more: layers are narrowed.
        where: Device and places of the data.
        quiet: As in `run_experiment`.
        cluster: Where to share the trials out, and to train with the best of them; in this process when None.

    Raises:
        ValueError: If the folder holds a search for something else, validation has no score, or no trial succeeds.
        ImportError: If Optuna is not installed.
    """
    check_type("base", base, Experiment)
    num_trials = whole_number("num_trials (--trials)", num_trials, 1, 100_000)
    minutes = None if minutes is None else positive_number("minutes (--minutes)", minutes)
    if max_parameters is not None:
        whole_number("max_parameters (--max-parameters)", max_parameters)
    if base.pretraining is not None:
        raise ValueError("Trials are not pre-trained: leave out --pretraining, and pre-train with the best settings.")
    refuse_several(Ranks.of_this_process(), "A search", "run it in one process")
    where = where or Where()
    _check_validation(dataset)
    space = search_space(base, recipe_settings)
    if cluster is not None:
        refuse_given(dataset)
    kind = choose_device(where.device).type if cluster is None else cluster.device
    base = suited(base, dataset, kind, recipe_settings)
    path = as_path("folder", folder)
    path.mkdir(parents=True, exist_ok=True)
    search = Search(path, base, space, dataset, Features.of(dataset), where, kind, quiet, max_parameters)
    end = None if minutes is None else time.monotonic() + 60 * minutes
    with RunFolder(path).locked():
        search.keep_base()
        study = _open_study(path, dataset.task.lower_is_better, base.seed, cluster is not None)
        search.enqueue_first(study)
        if cluster is None:
            search.run_trials(study, num_trials, end)
        else:
            share_trials(search, study, num_trials, end, cluster)
        best = search.keep_best(study, recipe, recipe_settings)
    result = search.train_best(best, cluster)
    return Tuned(path, best, result, study)


def _check_validation(dataset: Dataset) -> None:
    val = dataset.split.val
    reason = "it is empty" if len(val) == 0 else why_no_score(dataset.task.metric, targets_of(dataset.store, val))
    if reason:
        raise ValueError(f"Validation chooses the settings, and the validation part has no score: {reason}.")


def _open_study(folder: Path, lower_is_better: bool, seed: int, is_shared: bool) -> optuna.Study:
    """The study of a folder, new or as it was; trials that a process left unfinished have failed."""
    try:
        import optuna
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise ImportError("Tuning needs Optuna: pip install optuna") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        backend = JournalFileBackend(str(folder / JOURNAL))  # lines of JSON
        study = optuna.create_study(
            storage=optuna.storages.JournalStorage(backend),
            study_name="crawl",
            load_if_exists=True,
            direction="minimize" if lower_is_better else "maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=_STARTED, n_warmup_steps=_WARM_UP),
        )
        for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{folder / JOURNAL} is damaged ({error}): choose another folder.") from None
    number = len(study.get_trials(deepcopy=False))
    seed = derive_seed(seed, "tune", number) % 2**32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.sampler = optuna.samplers.TPESampler(
            seed=seed, constant_liar=is_shared
        )  # trials differ from those under way
    return study
