"""From data to a trained model: the loop, schedules, checkpoints, and evaluation over fresh walks."""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.training.calling import why_not_captured
    from crawl.training.evaluation import Predictions, predict
    from crawl.training.pretraining import Pretrainer
    from crawl.training.settings import (
        Constant,
        Cosine,
        CosinePerStep,
        Evaluation,
        Interval,
        OneCycle,
        Plateau,
        Pretraining,
        Step,
        Training,
    )
    from crawl.training.trainer import Trainer

__all__ = [
    "Constant",
    "Cosine",
    "CosinePerStep",
    "Evaluation",
    "Interval",
    "OneCycle",
    "Plateau",
    "Predictions",
    "Pretrainer",
    "Pretraining",
    "Step",
    "Trainer",
    "Training",
    "predict",
    "why_not_captured",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "crawl.training.calling": ("why_not_captured",),
        "crawl.training.evaluation": ("Predictions", "predict"),
        "crawl.training.pretraining": ("Pretrainer",),
        "crawl.training.settings": (
            *("Training", "Pretraining", "Evaluation", "Plateau", "Step", "Interval", "Cosine", "CosinePerStep"),
            *("OneCycle", "Constant"),
        ),
        "crawl.training.trainer": ("Trainer",),
    },
)
