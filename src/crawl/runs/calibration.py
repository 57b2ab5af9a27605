"""What the validation part of a run says about its predictions: intervals and sets that hold the truth this often.

Intervals and sets are those of split conformal prediction, by crepes: if new data are drawn as the validation part was,
a share of at least `confidence` of them holds the truth, whatever the model is. Data of another kind, such as other
scaffolds than those of training, have no such guarantee. The validation part has also chosen the best epoch, and the
temperature of probabilities, for which the shares may fall a little short.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from crawl.checks import check_choice, real_number
from crawl.data.task import Kind, Task
from crawl.files import parse_json
from crawl.plain import structure
from crawl.runs.folder import output_names
from crawl.training.evaluation import Predictions
from crawl.training.metrics import Array
from crawl.training.reliability import (
    brier,
    expected_calibration_error,
    fit_temperature,
    gaussian_nll,
    nll,
    of_all_classes,
    with_temperature,
)

LEAST_TARGETS = 20  # of the validation part, for each target
CONFIDENCE = 0.9  # of the intervals and sets that a record tells about
_MOST_SCORES = 10_000  # that are kept of each target
_CONFIDENCES = np.linspace(0.1, 0.9, 9)

Spread = Literal["noise", "model_spread"]


@dataclass(frozen=True)
class Calibration:
    """What is kept of the validation part of a run, for each target: a class, a number, or a label.

    Attributes:
        kind: The kind of the task.
        num_repeats: How many evaluations, each with its own walks, a prediction is the mean of.
        scores: How wrong each validation row was: for numbers the distance of the prediction from the target, divided
            by the spread of the row where there is one; for classes and labels 1 minus the probability of the truth.
        temperatures: What the logarithms of probabilities are divided by; () for numbers.
        spreads: Which spreads intervals are proportional to; () if all rows have intervals of the same width.
        offsets: What is added to the spread of a row: its median over the validation part, so that no interval is
            much too narrow because models happen to agree.
        weights: A hash of the weights that made the predictions; empty in calibrations of older versions.
    """

    kind: Kind
    num_repeats: int
    scores: tuple[tuple[float, ...], ...]
    temperatures: tuple[float, ...] = ()
    spreads: tuple[Spread, ...] = ()
    offsets: tuple[float, ...] = ()
    weights: str = ""

    @classmethod
    def of(cls, predictions: Predictions, targets: Array, weights: str = "") -> Calibration:
        """The calibration by predictions whose targets are known; NaN where one is missing.

        `weights` is a hash of the weights of the model, or empty.

        Raises:
            ValueError: If a target is known too seldom.
        """
        task, columns = predictions.task, _columns(predictions.task, targets)
        num_repeats = len(predictions.repeats)
        for name, column in zip(target_names(task), columns, strict=True):
            if (number := int((~np.isnan(column)).sum())) < LEAST_TARGETS:
                raise ValueError(f"the validation part has {number} values of {name}, and at least 20 are needed")
        if task.kind == "regression":
            names: tuple[Any, ...] = tuple(n for n in get_args(Spread) if getattr(predictions, n) is not None)
            spread = _combined(predictions, names)
            offsets = () if spread is None else tuple(np.median(spread, axis=0).tolist())
            found = cls(task.kind, num_repeats, (), (), names, offsets, weights)
            distances = np.abs(predictions.mean - targets) / found.widths(predictions)
            return replace(found, scores=tuple(_kept(column) for column in distances.T))
        temperatures, scores = [], []
        for probabilities, column in zip(_probabilities(task, predictions.mean), columns, strict=True):
            known = ~np.isnan(column)
            classes = column[known].astype(np.int64)
            temperatures.append(fit_temperature(probabilities[known], classes))
            scaled = of_all_classes(with_temperature(probabilities[known], temperatures[-1]))
            scores.append(_kept(1 - scaled[np.arange(len(classes)), classes]))
        return cls(task.kind, num_repeats, tuple(scores), tuple(temperatures), weights=weights)

    def to_json(self) -> str:
        """The calibration as JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_json(cls, text: str, task: Task) -> Calibration:
        """What `to_json` wrote. Refuses other content, and that of another task."""
        return cls.from_plain(parse_json(text), task)

    @classmethod
    def from_plain(cls, values: Any, task: Task) -> Calibration:
        """What `asdict` made of one, perhaps through JSON. Refuses other content, and that of another task."""
        found = structure(cls, values, "The calibration")
        number = len(target_names(task))
        of_numbers = task.kind == "regression"
        fits = found.kind == task.kind and len(found.scores) == number
        fits &= len(found.temperatures) == (0 if of_numbers else number)
        fits &= len(found.offsets) == (number if found.spreads else 0) and (of_numbers or not found.spreads)
        if not fits or found.num_repeats < 1:
            raise ValueError(f"it is not of a {task.kind} task with {number} targets")
        every = [*(score for scores in found.scores for score in scores), *found.offsets, *found.temperatures]
        if not all(np.isfinite(every)) or min(every) < 0 or 0 in found.temperatures:
            raise ValueError("its numbers must be finite and not below 0, and its temperatures above 0")
        if min(map(len, found.scores)) < LEAST_TARGETS:
            raise ValueError(f"each of its scores must be a list of at least {LEAST_TARGETS}")
        return found

    def check_confidence(self, confidence: float) -> float:
        """The confidence. Refuses one that is not between 0 and 1, or for which the validation part is too small."""
        if not 0 < real_number("confidence", confidence) < 1:
            raise ValueError(f"confidence must be between 0 and 1, as 0.9 is, not {confidence}.")
        fewest = min(map(len, self.scores))
        if np.ceil((fewest + 1) * confidence) > fewest:
            largest = fewest / (fewest + 1)
            raise ValueError(
                f"confidence={confidence:g} needs more validation rows than {fewest}, which are enough for "
                f"{np.floor(1000 * largest) / 1000:g} at most: take less, or train with a larger validation part."
            )
        return float(confidence)

    def widths(self, predictions: Predictions) -> Array:
        """`[n, k]` what the distances of numbers from their predictions are compared with; 1 if rows are alike."""
        for name in self.spreads:
            if getattr(predictions, name) is None:
                raise ValueError(f"The predictions have no {name}, but those of the validation part had one.")
        spread = _combined(predictions, self.spreads)
        width: Array = np.ones_like(predictions.mean) if spread is None else spread + np.array(self.offsets)
        return np.maximum(width, np.finfo(np.float64).tiny)

    def interval(self, predictions: Predictions, confidence: float = CONFIDENCE) -> tuple[Array, Array]:
        """`[n, k]` the lower and the upper ends of intervals that hold a share of at least `confidence` of targets.

        They are NaN for graphs that could not be read.
        """
        self._check_kind(predictions, "intervals are for numbers; classes and labels have sets", of_numbers=True)
        from crepes import ConformalRegressor

        confidence, widths = self.check_confidence(confidence), self.widths(predictions)
        ends = []
        for k, scores in enumerate(self.scores):
            regressor = ConformalRegressor().fit(np.array(scores), sigmas=np.ones(len(scores)))
            ends.append(regressor.predict_int(predictions.mean[:, k], sigmas=widths[:, k], confidence=confidence))
        lower, upper = np.stack(ends, axis=2).transpose(1, 0, 2)
        return lower, upper

    def sets(self, predictions: Predictions, confidence: float = CONFIDENCE) -> NDArray[np.bool_]:
        """`[n, t, c]` bool: which classes are in the set of each row, for each of t targets.

        For binary and multi-class tasks there is one target; a label has the classes no and yes. A share of at least
        `confidence` of the sets holds the truth. A set may be empty: no class is like what validation rows were. Rows
        of graphs that could not be read are refused.
        """
        self._check_kind(predictions, "sets are for classes and labels; numbers have intervals", of_numbers=False)
        from crepes import ConformalClassifier

        confidence, sets = self.check_confidence(confidence), []
        mean = self._scaled_mean(predictions)
        if (missing := np.isnan(mean).any(axis=1)).any():
            raise ValueError(f"Graph {int(missing.argmax())} could not be read, so it has no set: leave it out.")
        for probabilities, scores in zip(_probabilities(predictions.task, mean), self.scores, strict=True):
            classifier, distances = ConformalClassifier().fit(np.array(scores)), 1 - of_all_classes(probabilities)
            sets.append(classifier.predict_set(distances, confidence=confidence, smoothing=False).astype(bool))
        return np.stack(sets, axis=1)

    def scaled(self, predictions: Predictions) -> Predictions:
        """The predictions with calibrated probabilities; as they are if these are calibrated already.

        The temperatures act on the mean, for which they were fitted. Spreads are those of evaluations and of models at
        the same temperatures, each by itself.
        """
        self._check_kind(predictions, "temperatures are for probabilities; numbers have none", of_numbers=False)
        if predictions.scaled_mean is not None:
            return predictions
        task, members = predictions.task, predictions.member_means
        return replace(
            predictions,
            repeats=self._at_temperatures(task, predictions.repeats),
            member_means=None if members is None else self._at_temperatures(task, members),
            scaled_mean=self._scaled_mean(predictions),
        )

    def _scaled_mean(self, predictions: Predictions) -> Array:
        """`[n, k]` the mean at the temperatures."""
        found = predictions.scaled_mean
        return self._at_temperatures(predictions.task, predictions.mean) if found is None else found

    def _at_temperatures(self, task: Task, probabilities: Array) -> Array:
        """`[…, n, k]` probabilities in their form, scaled row by row."""
        columns = _probabilities(task, probabilities.reshape(-1, probabilities.shape[-1]))
        scaled = [with_temperature(*pair) for pair in zip(columns, self.temperatures, strict=True)]
        return np.concatenate(scaled, axis=1).reshape(probabilities.shape)

    def _check_kind(self, predictions: Predictions, message: str, *, of_numbers: bool) -> None:
        if (self.kind == "regression") != of_numbers:
            raise ValueError(f"The task is {self.kind}: {message}.")
        if len(predictions.repeats) < self.num_repeats:
            raise ValueError(
                f"The calibration is of predictions that are means of {self.num_repeats} evaluations, and these are of "
                f"{len(predictions.repeats)}, which depend more on the walks: leave out num_repeats."
            )
        if predictions.task.kind != self.kind:
            raise ValueError(f"These are predictions of a {predictions.task.kind} task, not of a {self.kind} one.")

    def record(self, parts: dict[str, tuple[Predictions, Array]]) -> dict[str, Any]:
        """What `result.json` says about it, with the scores of each target on parts such as the test part.

        See `docs/uncertainty.md` for the names.
        """
        found: dict[str, Any] = {"confidence": CONFIDENCE, "num_val": [len(scores) for scores in self.scores]}
        found |= {"spreads": list(self.spreads)} if self.kind == "regression" else {}
        of_targets: dict[str, dict[str, Any]] = {}
        for part, (predictions, targets) in parts.items():
            how = self._numbers if self.kind == "regression" else self._classes
            columns = _columns(predictions.task, targets)
            for k, (name, column) in enumerate(zip(target_names(predictions.task), columns, strict=True)):
                known = ~np.isnan(column)
                of_target = of_targets.setdefault(name, {})
                if self.temperatures:
                    of_target["temperature"] = self.temperatures[k]
                of_target[part] = {"count": int(known.sum())}
                if known.any():
                    of_target[part] |= how(k, predictions, column, known)
        return found | {"by_target": of_targets}

    def _numbers(self, k: int, predictions: Predictions, targets: Array, known: NDArray[np.bool_]) -> dict[str, float]:
        def coverage(confidence: float) -> tuple[float, float]:
            lower, upper = (ends[known, k] for ends in self.interval(predictions, confidence))
            inside = (lower <= targets[known]) & (targets[known] <= upper)
            return float(inside.mean()), float((upper - lower).mean())

        covered, width = coverage(CONFIDENCE)
        found = {"coverage": covered, "mean_width": width}
        found["coverage_error"] = float(np.mean([abs(coverage(float(c))[0] - c) for c in _CONFIDENCES]))
        if predictions.noise is not None:
            spread = _combined(predictions, get_args(Spread))
            assert spread is not None
            found["nll"] = gaussian_nll(predictions.mean[known, k], spread[known, k], targets[known])
        return found

    def _classes(self, k: int, predictions: Predictions, targets: Array, known: NDArray[np.bool_]) -> dict[str, float]:
        classes = targets[known].astype(np.int64)
        before = _probabilities(predictions.task, predictions.mean)[k][known]
        after = with_temperature(before, self.temperatures[k])
        found: dict[str, float] = {}
        for name, score in (("nll", nll), ("brier", brier), ("ece", expected_calibration_error)):
            found |= {name: score(before, classes), f"{name}_scaled": score(after, classes)}
        sets = self.sets(predictions, CONFIDENCE)[known, k]
        found["coverage"] = float(sets[np.arange(len(classes)), classes].mean())
        return found | {"mean_size": float(sets.sum(axis=1).mean())}


def target_names(task: Task) -> list[str]:
    """A name for each target: for classes there is one."""
    if task.kind in ("binary", "multiclass"):
        return list(task.target_names) or ["target"]
    return output_names(task)


def _columns(task: Task, targets: Array) -> list[Array]:
    """The targets, one after the other."""
    check_choice("kind", task.kind, get_args(Kind))
    return [targets.reshape(len(targets))] if task.kind in ("binary", "multiclass") else list(targets.T)


def _probabilities(task: Task, mean: Array) -> list[Array]:
    """Of each target, the probabilities of its classes in the form of `crawl.training.reliability`."""
    return [mean[:, k : k + 1] for k in range(mean.shape[1])] if task.kind == "multilabel" else [mean]


def _combined(predictions: Predictions, spreads: tuple[Spread, ...]) -> Array | None:
    """The root of the summed squares of these spreads, as far as there are any."""
    found = [spread for name in spreads if (spread := getattr(predictions, name)) is not None]
    return np.sqrt(np.square(found).sum(axis=0)) if found else None


def _kept(scores: Array) -> tuple[float, ...]:
    """The known scores, in ascending order; of very many, some that are drawn."""
    known = scores[~np.isnan(scores)]
    if len(known) > _MOST_SCORES:
        known = np.random.default_rng(0).choice(known, _MOST_SCORES, replace=False)
    return tuple(np.sort(known).tolist())
