"""`crawl evaluate`: the score of a trained model, with fresh walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from crawl.cli.flags import AnyPath, WithModel
from crawl.cli.output import printable

if TYPE_CHECKING:
    from crawl.data import Dataset
    from crawl.runs import TrainedModel


@dataclass(frozen=True, kw_only=True)
class Evaluate(WithModel):
    """Score a trained model on the data of its run, with fresh walks.

    Attributes:
        split: The split to score.
        data: The file or folder with the data, if it has moved since; other data are refused.
    """

    split: Literal["test", "val", "train"] = "test"
    data: AnyPath = None

    def run(self) -> None:
        """Predict, score, print."""
        self.check()
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
            f"({len(ids)} graphs of {printable(dataset.name)})"
        )
        for k, (name, scores) in enumerate(predictions.scores_by_target(targets).items()):
            reason = why_no_score(dataset.task.metric, targets[:, k])
            score = f"no score: {reason}" if reason else f"{np.mean(scores):.4f} ± {np.std(scores):.4f}"
            print(f"  {printable(name)} {score}")

    def _dataset(self, trained: TrainedModel) -> Dataset:
        """The data of the run with its split; refused if they are not what they were."""
        from crawl.runs.run import read_dataset

        dataset = read_dataset(trained.experiment, trained.where.moved(path=self.data))
        trained.check_data(dataset)
        split = self.run_folder / "split.json"  # all that runs of older versions kept
        if split.is_file() and split.read_text() != dataset.split.to_json():
            raise ValueError(
                f"The data have changed since {self.run_folder} was trained: they are split differently now."
            )
        return dataset
