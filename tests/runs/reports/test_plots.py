from __future__ import annotations

import numpy as np
import pytest

from crawl.runs.records import RunRecord
from crawl.runs.reports import plots

pytest.importorskip("matplotlib")


def test_curves_leave_out_what_is_not_known() -> None:
    epochs = [1, 2, 3, 4]
    line = plots.Line("<b>$x$", epochs, [None, float("nan"), 2.0, 100.0])
    figure = plots.curve([line, plots.Line("other", epochs, [1.0, 1.0, 1.0, 1.0])], "a", "A", may_be_log=True)
    assert figure is not None
    assert "&lt;b&gt;$x$" in figure.picture
    assert "mathdefault" not in figure.picture  # numbers on a logarithmic axis
    assert plots.curve([plots.Line("x", epochs, [None] * 4)], "a", "A") is None


def test_a_single_epoch_is_a_point() -> None:
    figure = plots.curve([plots.Line("x", [1], [0.5])], "a", "A", best_epoch=1)
    assert figure is not None
    assert "<use" in figure.picture


def test_many_points_are_pixels() -> None:
    rng = np.random.default_rng(0)
    few, many = (plots.parity(x, x, "a", "A").picture for x in (rng.random(10), rng.random(3000)))
    assert "<image" in many
    assert "<image" not in few
    assert len(many) < 200_000


def test_targets_that_are_all_equal_can_be_drawn() -> None:
    assert "<path" in plots.parity(np.ones(3), np.ones(3), "a", "A").picture
    assert "Mean 0, standard deviation 0" in plots.histogram_of_errors(np.zeros(3), "b", "B").caption


def test_confusion_counts() -> None:
    figure = plots.confusion(np.array([0.0, 0, 1]), np.array([0, 1, 1]), ["a", "<i>"], "a")
    assert figure is not None
    assert "&lt;i&gt;" in figure.picture
    assert plots.confusion(np.zeros(1), np.zeros(1), [str(i) for i in range(31)], "a") is None


def test_reliability_by_hand() -> None:
    probability = np.concatenate([np.full(10, 0.9), np.full(10, 0.1)])
    truth = np.concatenate([np.ones(10), np.zeros(9), np.ones(1)])
    mean, share, number = plots.reliability_bins(truth, probability)
    np.testing.assert_allclose(mean, [0.1, 0.9])
    np.testing.assert_allclose(share, [0.1, 1.0])
    np.testing.assert_array_equal(number, [10, 10])


def test_the_mean_of_curves_with_other_epochs() -> None:
    long = RunRecord("a", None, curve=[{"epoch": epoch, "loss": float(epoch)} for epoch in (1, 3, 5)])
    short = RunRecord(
        "b", None, curve=[{"epoch": 2, "loss": 4.0}, {"epoch": 3, "loss": 5.0}, {"epoch": 4, "loss": None}]
    )
    line = plots.mean_line("both", [long, short], "loss")
    assert line.epochs == [1, 2, 3, 5]
    assert line.values == [1.0, 3.0, 4.0, 5.0]
    assert plots.mean_line("none", [RunRecord("c", None)], "loss").epochs == []
