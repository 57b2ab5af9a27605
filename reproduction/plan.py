"""What a table of results is made of: rows, each of which is an experiment that is run several times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from crawl.runs.experiment import Experiment
from crawl.runs.sources import WithFolds


@dataclass(frozen=True)
class Published:
    """What the paper reports.

    Attributes:
        mean: The score, or the seconds.
        cross_deviation: The standard deviation over models, if it is reported.
        internal_deviation: The standard deviation over evaluations of a model, if it is reported.
        at_most: Whether `mean` is only an upper bound.
        mark: Where it is from, if that is not the paper itself; shown in brackets, and explained in the table's note.
    """

    mean: float
    cross_deviation: float | None = None
    internal_deviation: float | None = None
    at_most: bool = False
    mark: str = ""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a table.

    Attributes:
        place: Its folder below the folder of all tables.
        experiment: What to do.
        trained: If the run only evaluates another one, that one's place.
        start_share: For such a run, the share of nodes from which walks start.
        synthetic: A benchmark, if the run is on random graphs of its size.
        is_timed: Whether it is run for its time, so that nothing may run beside it.
    """

    place: str
    experiment: Experiment
    trained: str = ""
    start_share: float = 1.0
    synthetic: str = ""
    is_timed: bool = False


@dataclass(frozen=True)
class Row:
    """One row: an experiment, several times.

    Attributes:
        label: What it is called.
        place: The folder of its runs, `TABLE/ROW`; rows of different tables may share it.
        experiment: The experiment, with seed 0 and fold 0.
        num_seeds: How many models are trained.
        num_folds: On how many folds each.
        published: What the paper reports.
        start_share: If `trained` is given, the share of nodes from which walks start in evaluation.
        trained: The place of the runs that are evaluated with this share.
        synthetic: A benchmark, if the runs are on random graphs of its size.
        x: Where the row stands on the axis of a figure.
        given: The runs, if they are not those that seeds and folds make.
        own_name: What it is called in commands, if that is not the last part of its place.
        target: The one of several targets whose score is reported; their mean if empty.
        part: The split whose score is reported.
    """

    label: str
    place: str
    experiment: Experiment
    num_seeds: int = 1
    num_folds: int = 1
    published: Published | None = None
    start_share: float = 1.0
    trained: str = ""
    synthetic: str = ""
    x: float | None = None
    given: tuple[PlannedRun, ...] = ()
    own_name: str = ""
    target: str = ""
    part: Literal["test", "val", "train"] = "test"

    @property
    def name(self) -> str:
        """What it is called in commands."""
        return self.own_name or self.place.rpartition("/")[2]

    def runs(self) -> Iterator[PlannedRun]:
        """All runs of the row."""
        yield from self.given
        for seed in range(0 if self.given else self.num_seeds):
            for fold in range(self.num_folds):
                name = f"seed-{seed}" if self.num_folds == 1 else f"seed-{seed}-fold-{fold}"
                data = self.experiment.data
                data = replace(data, fold=fold) if isinstance(data, WithFolds) else data
                experiment = replace(self.experiment, seed=seed, data=data)
                trained = f"{self.trained}/{name}" if self.trained else ""
                yield PlannedRun(f"{self.place}/{name}", experiment, trained, self.start_share, self.synthetic)


@dataclass(frozen=True)
class Table:
    """A table or figure of the paper.

    Attributes:
        name: What it is called in commands.
        title: Its heading.
        rows: Its rows.
        measure: Whether a score is reported, or the seconds of an epoch.
        x_label: For a figure, what its axis shows.
        needs: Other tables whose runs must be there first.
        note: What a reader must know.
        is_overview: Whether it has no runs of its own, only those of other tables.
        has_effort: Whether it shows parameters, time and memory of each row.
        has_mean_prediction: Whether it shows the score of the mean of all evaluations' predictions beside their mean
            score.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    measure: Literal["score", "seconds"] = "score"
    x_label: str = ""
    needs: tuple[str, ...] = ()
    note: str = ""
    is_overview: bool = False
    has_effort: bool = False
    has_mean_prediction: bool = False

    def places(self) -> list[str]:
        """The places of its runs, each once."""
        return list(dict.fromkeys(run.place for row in self.rows for run in row.runs()))
