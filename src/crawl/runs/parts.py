"""What is said about the parts of a data set before anything is trained on them."""

from __future__ import annotations

import warnings

import numpy as np

from crawl.data.dataset import Dataset
from crawl.runs.folder import output_names
from crawl.training.evaluation import targets_of
from crawl.training.metrics import why_no_score


def warn_of_parts(dataset: Dataset) -> None:
    """Warn of classes without an example to learn from, and of parts that cannot be scored."""
    task, split = dataset.task, dataset.split
    if dataset.store.y is None:
        return  # which the trainer refuses
    targets = {part: targets_of(dataset.store, getattr(split, part)) for part in ("train", "val", "test")}
    if task.kind in ("binary", "multiclass"):
        names, seen = output_names(task), set(np.unique(targets["train"]))
        for part in ("val", "test"):
            if unseen := [names[int(i)] for i in np.unique(targets[part]) if i not in seen]:
                warnings.warn(
                    f"{'Classes' if len(unseen) > 1 else 'Class'} {', '.join(unseen)} of the {part} part: the training "
                    "part has no example. Choose another split, or leave these graphs out.",
                    UserWarning,
                    stacklevel=3,
                )
    for part in ("val", "test"):
        reason = why_no_score(task.metric, targets[part]) if len(getattr(split, part)) else ""
        if reason:
            effect = ", so the last epoch is taken for the best" if part == "val" else ""
            warnings.warn(
                f"The {part} part has no score{effect}: {reason}. Choose another split or metric.",
                UserWarning,
                stacklevel=3,
            )
