from __future__ import annotations

import pytest

from crawl.runs import curves as module
from crawl.runs.curves import CurveGroup, draw_curves
from crawl.runs.records import RunRecord

EPOCHS = [{"epoch": 1, "loss": 1.0, "val": None}, {"epoch": 2, "loss": 0.5, "val": 0.4}]


@pytest.fixture
def figures(monkeypatch):
    pytest.importorskip("matplotlib")
    saved = []
    monkeypatch.setattr(module, "save_figure", lambda figure, path: saved.append(figure))
    return saved


def group(curve, metric="mae") -> CurveGroup:
    return CurveGroup("run", metric, [RunRecord("run", None, curve=curve)])


def test_loss_and_validation_score_with_the_best_epoch(tmp_path, figures):
    assert draw_curves([group(EPOCHS)], "title", tmp_path / "a.png", best_epoch=2) == [tmp_path / "a.png"]
    loss, score = figures[0].axes
    assert list(loss.lines[0].get_ydata()) == [1.0, 0.5]
    assert (list(score.lines[0].get_xdata()), list(score.lines[0].get_ydata())) == ([2], [0.4])
    assert [list(axes.lines[1].get_xdata()) for axes in (loss, score)] == [[2, 2]] * 2
    (legend,) = figures[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["run", "best epoch 2"]


def test_without_validation_the_test_score_is_drawn(tmp_path, figures):
    epoch = {"epoch": 1, "loss": 1.0, "val": None}
    for curve in ([epoch | {"test": 0.5}], [epoch]):
        draw_curves([group(curve)], "title", tmp_path / "a.png")
    labels = [figure.axes[1].get_ylabel() for figure in figures]
    assert labels == ["without validation: test mae", "validation mae"]


def test_nothing_is_drawn_without_epochs(tmp_path, figures):
    assert draw_curves([group([])], "title", tmp_path / "a.png") == []
    assert figures == []
