"""`crawl evaluate`: the score of a trained model, with fresh walks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from crawl.cli.flags import check_positive, check_seed, check_walks, compute_with
from crawl.cli.output import printable

if TYPE_CHECKING:
    from crawl.data import Dataset
    from crawl.runs import TrainedModel


@dataclass(frozen=True)
class Evaluate:
    """Score a trained model on the data of its run, with fresh walks.

    Attributes:
        run_folder: The folder of a finished run, or a checkpoint.
        split: The split to score.
        num_repeats: Evaluations, each with its own walks; as many as in training when not given.
        num_steps: Steps of a walk; as many as in training when not given.
        batch_size: Graphs at a time; changes no result.
        data: The file or folder with the data, if it has moved since; other data are refused.
        seed: Of the walks.
        device: Where to compute.
        threads: How many threads compute; as many as the machine has cores when not given.
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    split: Literal["test", "val", "train"] = "test"
    num_repeats: int | None = None
    num_steps: int | None = None
    batch_size: int | None = None
    data: Path | None = None
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None

    def run(self) -> None:
        """Predict, score, print."""
        check_positive(num_repeats=self.num_repeats, num_steps=self.num_steps, batch_size=self.batch_size)
        check_seed(self.seed)
        compute_with(self.threads)
        import numpy as np

        from crawl.runs import TrainedModel
        from crawl.runs.progress import lines
        from crawl.training.evaluation import targets_of
        from crawl.training.metrics import why_no_score

        trained = TrainedModel.load(self.run_folder, self.device)
        check_walks(trained.experiment, num_repeats=self.num_repeats, num_steps=self.num_steps, seed=self.seed)
        dataset = self._dataset(trained)
        ids = getattr(dataset.split, self.split)
        targets = targets_of(dataset.store, ids)
        if reason := why_no_score(dataset.task.metric, targets):
            raise ValueError(f"The {self.split} split of {dataset.name} has no score: {reason}.")
        batches: list[None] = []
        with lines(lambda: f"{len(batches)} batches evaluated"):
            predictions = trained.predict(
                dataset.store.subset(ids),
                num_repeats=self.num_repeats,
                num_steps=self.num_steps,
                seed=self.seed,
                batch_size=self.batch_size,
                on_batch=lambda: batches.append(None),
            )
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
        """The data of the run with its split.

        Raises:
            ValueError: If they are not what they were.
        """
        from crawl.runs.build import load_dataset
        from crawl.runs.progress import reading

        experiment, where = trained.experiment, trained.where.moved(path=self.data)
        with reading(where.path or experiment.data.name):
            dataset = load_dataset(experiment.data, experiment.seed, path=where.path, root=where.root)
        trained.check_data(dataset)
        split = self.run_folder / "split.json"  # all that runs of older versions kept
        if split.is_file() and split.read_text() != dataset.split.to_json():
            raise ValueError(
                f"The data have changed since {self.run_folder} was trained: they are split differently now."
            )
        return dataset
