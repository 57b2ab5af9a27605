"""Intervals and sets hold the truth as often as they say, on data like those of the validation part."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from crawl.data import Task
from crawl.runs.calibration import Calibration
from crawl.training.evaluation import Predictions
from crawl.training.reliability import nll, with_temperature

NUMBERS = Task(kind="regression", num_outputs=2, target_names=("a", "b"))
CLASSES = Task(kind="multiclass", num_outputs=3, target_names=("kind",), class_names=("x", "y", "z"))


def numbers(seed: int, size: int, *, noise: bool = False) -> tuple[Predictions, np.ndarray]:
    """Predictions of two targets, the second ten times as large; some are missing. Half of the rows are quiet."""
    generator = np.random.default_rng(seed)
    scatter = np.where(generator.random((size, 1)) < 0.5, 0.2, 2.0) * np.array([1.0, 10.0])
    mean = generator.normal(size=(size, 2))
    targets = mean + scatter * generator.normal(size=(size, 2))
    targets[generator.random((size, 2)) < 0.1] = np.nan
    return Predictions(mean[None], NUMBERS, scatter if noise else None), targets


def classes(seed: int, size: int) -> tuple[Predictions, np.ndarray]:
    """Probabilities of three classes, of which the model is twice as sure as it should be."""
    generator = np.random.default_rng(seed)
    logits = 1.5 * generator.normal(size=(size, 3))
    truth = np.array([generator.choice(3, p=row) for row in softmax(logits, axis=1)])
    return Predictions(softmax(2 * logits, axis=1)[None], CLASSES), truth.astype(float)


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_intervals_hold_the_truth_as_often_as_they_say(confidence):
    covered = []
    for seed in range(60):
        calibration = Calibration.of(*numbers(seed, 100))
        predictions, targets = numbers(1000 + seed, 200)
        lower, upper = calibration.interval(predictions, confidence)
        known = ~np.isnan(targets)
        covered.append(((lower <= targets) & (targets <= upper))[known].mean())
    assert confidence - 0.01 < np.mean(covered) < confidence + 0.03  # and for finitely many a little more


def test_intervals_are_those_of_the_published_formula():
    predictions, targets = numbers(0, 50)
    lower, upper = Calibration.of(predictions, targets).interval(predictions, 0.8)
    distances = np.abs(predictions.mean - targets)
    for k in range(2):
        known = np.sort(distances[~np.isnan(distances[:, k]), k])
        width = known[int(np.ceil((len(known) + 1) * 0.8)) - 1]
        assert upper[:, k] - predictions.mean[:, k] == pytest.approx(width)
        assert predictions.mean[:, k] - lower[:, k] == pytest.approx(width)


def test_intervals_follow_the_noise():
    plain, noisy = Calibration.of(*numbers(0, 500)), Calibration.of(*numbers(0, 500, noise=True))
    assert (plain.spreads, noisy.spreads) == ((), ("noise",))
    predictions, targets = numbers(1, 500, noise=True)
    quiet = predictions.noise[:, 0] < 1
    lower, upper = noisy.interval(predictions)
    widths = (upper - lower)[:, 0]
    assert widths[quiet].max() < widths[~quiet].min()
    record = noisy.record({"test": (predictions, targets)})["by_target"]["a"]["test"]
    without = plain.record({"test": (predictions, targets)})["by_target"]["a"]["test"]
    assert 0.85 < record["coverage"] < 0.95
    assert record["mean_width"] < without["mean_width"]
    assert {"coverage", "mean_width", "coverage_error", "nll", "count"} == set(record)
    with pytest.raises(ValueError, match="have no noise, but those of the validation part had one"):
        noisy.interval(replace(predictions, noise=None))


def test_spreads_of_models_count_with_the_noise():
    predictions, targets = numbers(0, 40, noise=True)
    predictions = replace(predictions, member_means=np.stack([predictions.mean - 0.5, predictions.mean + 0.5]))
    calibration = Calibration.of(predictions, targets)
    assert calibration.spreads == ("noise", "model_spread")
    spread = np.sqrt(predictions.noise**2 + 0.25)
    assert calibration.widths(predictions) == pytest.approx(spread + np.median(spread, axis=0))


def test_sets_hold_the_truth_as_often_as_they_say():
    covered, sizes = [], []
    for seed in range(60):
        calibration = Calibration.of(*classes(seed, 100))
        predictions, truth = classes(1000 + seed, 100)
        sets = calibration.sets(predictions, 0.9)[:, 0]
        covered.append(sets[np.arange(100), truth.astype(int)].mean())
        sizes.append(sets.sum(axis=1).mean())
    assert 0.89 < np.mean(covered) < 0.93
    assert 1 < np.mean(sizes) < 3


def test_temperatures_mend_probabilities():
    predictions, truth = classes(0, 1000)
    calibration = Calibration.of(predictions, truth)
    assert calibration.temperatures == pytest.approx((2,), rel=0.2)
    scaled = calibration.scaled(predictions)
    assert nll(scaled.mean, truth.astype(int)) < nll(predictions.mean, truth.astype(int))
    assert (scaled.classes == predictions.classes).all()
    record = calibration.record({"test": classes(1, 1000)})
    of_test = record["by_target"]["kind"]["test"]
    for name in ("nll", "brier", "ece"):
        assert of_test[f"{name}_scaled"] < of_test[name]
    assert record["by_target"]["kind"]["temperature"] == calibration.temperatures[0]
    assert 0.87 < of_test["coverage"] < 0.94


def test_calibrated_probabilities_are_those_that_the_temperature_was_fitted_to():
    """It acts on the mean: T(mean) is not the mean of T, and on the side of another class at times."""
    validation, truth = classes(0, 1000)
    calibration = Calibration.of(validation, truth)
    repeats = np.array([[[0.98, 0.01, 0.01]], [[0.30, 0.69, 0.01]], [[0.20, 0.79, 0.01]]])
    calibration = replace(calibration, temperatures=(4.0,))
    predictions = Predictions(repeats, CLASSES, member_means=repeats[:2], num_steps=7, weights="of a model")
    scaled = calibration.scaled(predictions)
    assert np.array_equal(scaled.mean, with_temperature(predictions.mean, 4.0))
    each = [with_temperature(repeat, 4.0) for repeat in repeats]
    assert np.mean(each, axis=0).argmax() != predictions.mean.argmax()
    assert scaled.classes == predictions.classes
    assert scaled.walk_spread == pytest.approx(np.std(each, axis=0))
    assert scaled.model_spread == pytest.approx(np.std(each[:2], axis=0))
    assert (scaled.num_steps, scaled.weights) == (7, "of a model")
    assert calibration.scaled(scaled) is scaled  # not twice
    for confidence in (0.5, 0.9):
        assert np.array_equal(calibration.sets(scaled, confidence), calibration.sets(predictions, confidence))


def test_graphs_that_could_not_be_read():
    calibration, (predictions, _) = Calibration.of(*classes(0, 100)), classes(1, 3)
    gaps = predictions.with_gaps(np.array([True, True, False, True]))
    with pytest.raises(ValueError, match="Graph 2 could not be read, so it has no set: leave it out"):
        calibration.sets(gaps)
    scaled = calibration.scaled(gaps)
    assert np.isnan(scaled.mean).all(axis=1).tolist() == [False, False, True, False]
    assert np.array_equal(scaled.mean[3], calibration.scaled(predictions).mean[2])
    of_numbers = Calibration.of(*numbers(0, 100))
    found, _ = numbers(1, 3)
    lower, upper = of_numbers.interval(found.with_gaps(np.array([True, False, True, True])))
    assert np.isnan(lower[1]).all()
    assert np.isfinite(upper[[0, 2, 3]]).all()


def test_labels_have_a_temperature_and_a_set_each():
    generator = np.random.default_rng(0)
    task = Task(kind="multilabel", num_outputs=2, target_names=("a", "b"))
    probabilities = generator.random((300, 2))
    targets = (generator.random((300, 2)) < probabilities).astype(float)
    targets[:100, 1] = np.nan
    predictions = Predictions(probabilities[None], task)
    calibration = Calibration.of(predictions, targets)
    assert len(calibration.temperatures) == 2
    assert [len(scores) for scores in calibration.scores] == [300, 200]
    sets = calibration.sets(predictions)
    assert sets.shape == (300, 2, 2)
    held = np.take_along_axis(sets, np.nan_to_num(targets).astype(int)[:, :, None], axis=2)[..., 0]
    assert 0.9 <= held[~np.isnan(targets)].mean() < 0.94
    assert calibration.scaled(predictions).repeats.shape == predictions.repeats.shape


def test_two_classes():
    generator = np.random.default_rng(0)
    probabilities = generator.random((200, 1))
    truth = (generator.random(200) < probabilities[:, 0]).astype(float)
    predictions = Predictions(probabilities[None], Task(kind="binary", num_outputs=1))
    calibration = Calibration.of(predictions, truth)
    sets = calibration.sets(predictions)
    assert sets.shape == (200, 1, 2)
    assert 0.9 <= sets[np.arange(200), 0, truth.astype(int)].mean() < 0.93


class TestWhatIsRefused:
    predictions, targets = numbers(0, 30)

    def test_few_rows(self):
        few = Predictions(self.predictions.repeats[:, :19], NUMBERS)
        with pytest.raises(ValueError, match=r"the validation part has .* values of a, and at least 20 are needed"):
            Calibration.of(few, self.targets[:19])

    @pytest.mark.parametrize("confidence", [0, 1, -0.5, 90, np.nan, "0.9", None, True])
    def test_what_is_not_a_share(self, confidence):
        with pytest.raises(ValueError, match="confidence must be"):
            Calibration.of(self.predictions, self.targets).interval(self.predictions, confidence)

    def test_a_share_that_needs_more_rows(self):
        calibration = Calibration.of(self.predictions, self.targets)
        with pytest.raises(ValueError, match=r"confidence=0\.99 needs more validation rows than 2\d, which are enough"):
            calibration.interval(self.predictions, 0.99)
        calibration.interval(self.predictions, 0.9)

    def test_the_other_kind(self):
        calibration = Calibration.of(self.predictions, self.targets)
        of_classes = Calibration.of(*classes(0, 30))
        with pytest.raises(ValueError, match="The task is regression: sets are for classes"):
            calibration.sets(self.predictions)
        with pytest.raises(ValueError, match="The task is multiclass: intervals are for numbers"):
            of_classes.interval(classes(0, 30)[0])
        with pytest.raises(ValueError, match="These are predictions of a multiclass task, not of a regression one"):
            calibration.interval(classes(0, 30)[0])

    def test_fewer_evaluations(self):
        twice = Predictions(np.repeat(self.predictions.repeats, 2, axis=0), NUMBERS)
        with pytest.raises(ValueError, match="means of 2 evaluations, and these are of 1, which depend more"):
            Calibration.of(twice, self.targets).interval(self.predictions)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"kind": "binary"}, "not of a regression task with 2 targets"),
            ({"scores": [[0.5] * 30]}, "not of a regression task with 2 targets"),
            ({"scores": [[0.5] * 30, [-1.0] * 30]}, "must be finite and not below 0"),
            ({"scores": [[0.5] * 30, [0.5]]}, "a list of at least 20"),
            ({"scores": "none"}, "scores"),
            ({"temperatures": [1.0]}, "not of a regression task with 2 targets"),
            ({"spreads": ["noise"]}, "not of a regression task with 2 targets"),
            ({"spreads": ["luck"], "offsets": [1.0, 1.0]}, "spreads"),
            ({"num_repeats": 0}, "not of a regression task"),
            ({"colour": 1}, "colour"),
        ],
    )
    def test_a_damaged_file(self, changed, message):
        calibration = Calibration.of(self.predictions, self.targets)
        text = calibration.to_json()
        assert Calibration.from_json(text, NUMBERS) == calibration
        with pytest.raises(ValueError, match=message):
            Calibration.from_json(json.dumps(json.loads(text) | changed), NUMBERS)


def test_of_very_many_rows_some_are_kept(monkeypatch):
    monkeypatch.setattr("crawl.runs.calibration._MOST_SCORES", 50)
    calibration = Calibration.of(*numbers(0, 500))
    assert [len(scores) for scores in calibration.scores] == [50, 50]
