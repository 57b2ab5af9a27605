"""From data to a trained model: the loop, schedules, checkpoints, and evaluation over fresh walks."""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.training.evaluation import Predictions, predict
    from crawl.training.settings import Evaluation, Training
    from crawl.training.trainer import Trainer

__all__ = ["Evaluation", "Predictions", "Trainer", "Training", "predict"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "crawl.training.evaluation": ("Predictions", "predict"),
        "crawl.training.settings": ("Evaluation", "Training"),
        "crawl.training.trainer": ("Trainer",),
    },
)
