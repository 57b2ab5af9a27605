from __future__ import annotations

import json
import math

import pytest
import torch

from crawl.training.schedule import Schedule
from crawl.training.settings import Evaluation, Training


def rates(schedule: Schedule, scores: list[float | None]) -> list[float]:
    """The learning rate of every epoch until the scores or the training end."""
    found = []
    for score in scores:
        if schedule.is_over:
            break
        found.append(schedule.lr)
        schedule.update(score)
    return found


def test_step():
    schedule = Schedule(Training(lr=1.0, schedule="step", step_epoch=3, factor=0.1, max_epochs=5), True)
    assert rates(schedule, [1.0] * 99) == pytest.approx([1, 1, 1, 0.1, 0.1])
    assert schedule.is_over


def test_interval():
    schedule = Schedule(Training(lr=1.0, schedule="interval", interval=2, factor=0.5, max_epochs=7), True)
    assert rates(schedule, [1.0] * 99) == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]


def test_cosine():
    schedule = Schedule(Training(lr=2.0, schedule="cosine", max_epochs=4), False)
    half = math.sqrt(0.5)
    assert rates(schedule, [1.0] * 99) == pytest.approx([2, 1 + half, 1, 1 - half])
    assert schedule.lr == pytest.approx(0)


def test_plateau_by_hand():
    schedule = Schedule(Training(lr=1.0, patience=2, factor=0.5, min_lr=0.2), True)
    scores = [5, 4, 4, 4.5, math.nan, 3, 3, 3, 3, 3, 3, 3, 3]
    #         best best 1 2  3: halved best 1 2 3: halved 1 2 3: halved, below min_lr
    assert rates(schedule, scores) == [1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
    assert schedule.is_over
    assert schedule.epoch == 12
    assert schedule.best == 3


def test_epochs_without_a_score_are_not_flat():
    schedule = Schedule(Training(lr=1.0, patience=1, factor=0.5, early_stop=3), True)
    assert rates(schedule, [None, 2.0, None, None, 3.0, None, 2.0, None, 4.0, None]) == [1] * 7 + [0.5] * 2
    assert schedule.is_over  # three scores that are not better


def test_epochs_without_a_score_count_for_the_other_schedules():
    schedule = Schedule(Training(lr=1.0, schedule="interval", interval=2, factor=0.5, max_epochs=5), True)
    assert rates(schedule, [None, 1.0, None, None, None]) == [1, 1, 0.5, 0.5, 0.25]


@pytest.mark.parametrize("lower_is_better", [True, False])
@pytest.mark.parametrize("patience", [1, 3])
def test_plateau_is_that_of_torch(lower_is_better, patience):
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    peer = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, mode="min" if lower_is_better else "max", factor=0.5, patience=patience, threshold=0
    )
    schedule = Schedule(Training(lr=1.0, patience=patience, min_lr=1e-5), lower_is_better)
    scores = torch.rand(60, generator=torch.Generator().manual_seed(0)).tolist()
    for score in scores:
        if schedule.is_over:
            break
        optimiser.step()
        peer.step(score)
        schedule.update(score)
        assert schedule.lr == optimiser.param_groups[0]["lr"]
    assert schedule.lr < 0.1


def test_the_last_rate_at_min_lr_is_still_used():
    schedule = Schedule(Training(lr=1.0, patience=1, factor=0.5, min_lr=0.5), True)
    assert rates(schedule, [1.0] * 99) == [1, 1, 1, 0.5, 0.5]


def test_early_stop_counts_from_the_last_better_score():
    settings = Training(lr=1.0, schedule="interval", interval=1000, early_stop=3)
    schedule = Schedule(settings, False)
    assert len(rates(schedule, [0.1, 0.2, 0.2, 0.1, 0.3, 0.3, 0.2, math.nan, 0.9])) == 8
    assert schedule.num_without_best == 3
    assert schedule.best == 0.3


def test_the_best_score_is_known():
    schedule, found = Schedule(Training(), False), []
    for score in (math.nan, 0.5, 0.5, 0.6, None, math.nan, 0.1):
        schedule.update(score)
        found.append((schedule.best, schedule.num_without_best))
    assert found == [(None, 1), (0.5, 0), (0.5, 1), (0.6, 0), (0.6, 0), (0.6, 1), (0.6, 2)]


@pytest.mark.parametrize("name", ["plateau", "step", "cosine", "interval"])
def test_it_goes_on_from_its_state(name):
    settings = Training(schedule=name, patience=2, step_epoch=6, interval=3, max_epochs=20)
    scores = [1.0, 0.9, 0.95, 0.95, 0.95, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8]
    whole = Schedule(settings, True)
    expected = rates(whole, scores)
    first = Schedule(settings, True)
    found = rates(first, scores[:5])
    second = Schedule(settings, True)
    second.restore(json.loads(json.dumps(first.state())))
    assert found + rates(second, scores[5:]) == expected
    assert second == whole


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", 0.0),
        ("lr", math.nan),
        ("batch_size", 0),
        ("max_epochs", -1),
        ("factor", 1.0),
        ("early_stop", 0),
        ("clip_norm", 0.0),
        ("min_lr", 1.0),
    ],
)
def test_settings_that_make_no_sense(name, value):
    with pytest.raises(ValueError, match=rf"^training\.{name} must"):
        Training(**{name: value})


def test_evaluation_that_makes_no_sense():
    with pytest.raises(ValueError, match=r"^evaluation\.num_val_repeats must be a whole number from 1 .*, not 0"):
        Evaluation(num_val_repeats=0)
    with pytest.raises(ValueError, match=r"^evaluation\.val_every must be a whole number from 1 .*, not 0"):
        Evaluation(val_every=0)
    with pytest.raises(ValueError, match=r"^evaluation\.num_norm_graphs must be a whole number from 0 .*, not -1"):
        Evaluation(num_norm_graphs=-1)
