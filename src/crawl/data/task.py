"""What is to be predicted, and how a prediction is scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from crawl.checks import MAX_CHANNELS, as_list, check_choice, shown, whole_number

Kind = Literal["regression", "binary", "multiclass", "multilabel"]
Level = Literal["graph", "node", "pair"]
Metric = Literal["mae", "rmse", "r2", "accuracy", "macro_f1", "ap", "roc_auc"]

_METRICS: dict[Kind, tuple[Metric, ...]] = {  # the first of a kind is its default
    "regression": ("mae", "rmse", "r2"),
    "binary": ("roc_auc", "accuracy", "macro_f1", "ap"),
    "multiclass": ("accuracy", "macro_f1"),
    "multilabel": ("ap", "roc_auc", "macro_f1"),
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """A kind of target with the metric that scores it. Survives `Task(**json.loads(json.dumps(asdict(task))))`.

    Attributes:
        kind: `regression` (one or more numbers), `binary` (0 or 1), `multiclass` (one of several) or `multilabel`
            (several answers of yes or no, each of which may be missing).
        level: Whether a graph, a node or a pair of nodes has a target.
        num_outputs: The width of the model's output: the number of targets, 1 for `binary`, of classes, or of labels.
        metric: The score, the usual one of the kind when empty.
        target_names: The names of the targets, where they have any.
        class_names: For `binary` and `multiclass`, what the classes 0, 1, … are called.
    """

    kind: Kind
    level: Level = "graph"
    num_outputs: int
    metric: str = ""
    target_names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(Kind))
        check_choice("level", self.level, get_args(Level))
        if self.metric is None or (isinstance(self.metric, str) and not self.metric):
            object.__setattr__(self, "metric", self.default_metric(self.kind))
        for name in ("target_names", "class_names"):
            names = as_list(name, getattr(self, name), "names")
            if not all(isinstance(each, str) for each in names):
                raise ValueError(f"{name} must be a list of names, not {shown(getattr(self, name))}.")
            object.__setattr__(self, name, tuple(names))
        check_choice(f"The metric of a {self.kind} task", self.metric, _METRICS[self.kind])
        object.__setattr__(self, "num_outputs", whole_number("num_outputs", self.num_outputs, 1, MAX_CHANNELS))
        if self.kind == "binary" and self.num_outputs != 1:
            raise ValueError(f"A {self.kind} task cannot have num_outputs={self.num_outputs}.")
        if self.kind == "multiclass" and self.num_outputs < 2:
            raise ValueError("A multiclass task needs at least two classes.")
        has_classes = self.kind in ("binary", "multiclass")
        self._check_names("target_names", 1 if has_classes else self.num_outputs)
        self._check_names("class_names", max(self.num_outputs, 2) if has_classes else 0)

    def _check_names(self, field: str, number: int) -> None:
        """Refuse names of targets or classes that are not one for each, all different; there may be none."""
        names = getattr(self, field)
        if names and len(names) != number:
            raise ValueError(
                f"A {self.kind} task with num_outputs={self.num_outputs} has {number} {field}, not {len(names)}."
            )
        if len(set(names)) < len(names):
            raise ValueError(f"{field} has a name twice: {shown(list(names))}.")

    @staticmethod
    def default_metric(kind: Kind) -> Metric:
        """The metric a kind of task is usually scored with."""
        return _METRICS[kind][0]

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value of the metric is a better one."""
        return self.metric in ("mae", "rmse")
