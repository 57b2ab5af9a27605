"""From data to a trained model: the loop, schedules, checkpoints, and evaluation over fresh walks."""

from crawl.training.evaluation import Predictions, predict
from crawl.training.settings import Evaluation, Training
from crawl.training.trainer import Trainer

__all__ = ["Evaluation", "Predictions", "Trainer", "Training", "predict"]
