"""`crawl evaluate`: the score of a trained model, with fresh walks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from crawl.cli.flags import WithModel
from crawl.cli.output import printable

if TYPE_CHECKING:
    from crawl.data import Dataset
    from crawl.runs import TrainedModel


@dataclass(frozen=True, kw_only=True)
class Evaluate(WithModel):
    """Score a trained model on the data of its run, with fresh walks.

    Attributes:
        split: The split to score.
        data: The file or folder with the data, if it has moved since, or the three files for training, validation and
            test; other data are refused.
    """

    split: Literal["test", "val", "train"] = "test"
    data: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="PATH [PATH PATH]", help_behavior_hint="")] = ()

    def run(self) -> None:
        """Predict, score, print."""
        self.check()
        if len(self.data) not in (0, 1, 3):
            raise ValueError(f"--data takes one path, or those of three files, not {len(self.data)}.")
        trained = self.load()
        import numpy as np

        from crawl.runs.progress import lines
        from crawl.training.evaluation import targets_of
        from crawl.training.metrics import why_no_score

        dataset = self._dataset(trained)
        ids = getattr(dataset.split, self.split)
        targets = targets_of(dataset.store, ids)
        if reason := why_no_score(dataset.task.metric, targets):
            raise ValueError(f"The {self.split} split of {dataset.name} has no score: {reason}.")
        batches: list[None] = []
        with lines(lambda: f"{len(batches)} batches evaluated"):
            predictions = self.predictions(trained, dataset.store.subset(ids), lambda: batches.append(None))
        scores = predictions.scores(targets)
        print(
            f"{self.split} {dataset.task.metric} {np.mean(scores):.4f} ± {np.std(scores):.4f} "
            f"over {len(scores)} evaluations; {predictions.score_of_mean(targets):.4f} with their mean "
            f"({len(ids)} {dataset.owner}s of {printable(dataset.name)})"
        )
        for k, (name, scores) in enumerate(predictions.scores_by_target(targets).items()):
            reason = why_no_score(dataset.task.metric, targets[:, k])
            score = f"no score: {reason}" if reason else f"{np.mean(scores):.4f} ± {np.std(scores):.4f}"
            print(f"  {printable(name)} {score}")

    def _dataset(self, trained: TrainedModel) -> Dataset:
        """The data of the run with its split; refused if they are not what they were."""
        from crawl.runs.run import read_dataset

        moved: dict[str, Any] = dict(zip(("path", "val_path", "test_path"), self.data, strict=False))
        dataset = read_dataset(trained.experiment, trained.where.moved(**moved))
        trained.check_data(dataset)
        split = self.run_folder / "split.json"  # all that runs of older versions kept
        if split.is_file() and split.read_text() != dataset.split.to_json():
            raise ValueError(
                f"The data have changed since {self.run_folder} was trained: they are split differently now."
            )
        return dataset
