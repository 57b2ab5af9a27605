from __future__ import annotations

import json
import math

import pytest
import torch

from crawl.training.schedule import Schedule
from crawl.training.settings import Constant, Cosine, CosinePerStep, Interval, OneCycle, Plateau, Step, Training


def rates(schedule: Schedule, scores: list[float | None]) -> list[float]:
    """The learning rate of every epoch until the scores or the training end."""
    found = []
    for score in scores:
        if schedule.is_over:
            break
        found.append(schedule.lr)
        schedule.update(score)
    return found


def step_rates(schedule: Schedule, scores: list[float]) -> list[float]:
    """The learning rate of every step until the scores or the training end."""
    found = []
    for score in scores:
        if schedule.is_over:
            break
        found += schedule.rates()
        schedule.update(score)
    return found


def test_step():
    schedule = Schedule(Training(lr=1.0, schedule=Step(step_epoch=3, factor=0.1), max_epochs=5), True)
    assert rates(schedule, [1.0] * 99) == pytest.approx([1, 1, 1, 0.1, 0.1])
    assert schedule.is_over


def test_interval():
    schedule = Schedule(Training(lr=1.0, schedule=Interval(interval=2, factor=0.5), max_epochs=7), True)
    assert rates(schedule, [1.0] * 99) == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]


def test_cosine():
    schedule = Schedule(Training(lr=2.0, schedule=Cosine(), max_epochs=4), False)
    half = math.sqrt(0.5)
    assert rates(schedule, [1.0] * 99) == pytest.approx([2, 1 + half, 1, 1 - half])
    assert schedule.lr == pytest.approx(0)


def test_plateau_by_hand():
    schedule = Schedule(Training(lr=1.0, schedule=Plateau(patience=2, factor=0.5, min_lr=0.2)), True)
    scores = [5, 4, 4, 4.5, math.nan, 3, 3, 3, 3, 3, 3, 3, 3]
    #         best best 1 2  3: halved best 1 2 3: halved 1 2 3: halved, below min_lr
    assert rates(schedule, scores) == [1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
    assert schedule.is_over
    assert schedule.epoch == 12
    assert schedule.best == 3


def test_epochs_without_a_score_are_not_flat():
    schedule = Schedule(Training(lr=1.0, early_stop=3, schedule=Plateau(patience=1, factor=0.5)), True)
    assert rates(schedule, [None, 2.0, None, None, 3.0, None, 2.0, None, 4.0, None]) == [1] * 7 + [0.5] * 2
    assert schedule.is_over  # three scores that are not better


def test_epochs_without_a_score_count_for_the_other_schedules():
    schedule = Schedule(Training(lr=1.0, schedule=Interval(interval=2, factor=0.5), max_epochs=5), True)
    assert rates(schedule, [None, 1.0, None, None, None]) == [1, 1, 0.5, 0.5, 0.25]


@pytest.mark.parametrize("lower_is_better", [True, False])
@pytest.mark.parametrize("patience", [1, 3])
def test_plateau_is_that_of_torch(lower_is_better, patience):
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    peer = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, mode="min" if lower_is_better else "max", factor=0.5, patience=patience, threshold=0
    )
    schedule = Schedule(Training(lr=1.0, schedule=Plateau(patience=patience, min_lr=1e-5)), lower_is_better)
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
    schedule = Schedule(Training(lr=1.0, schedule=Plateau(patience=1, factor=0.5, min_lr=0.5)), True)
    assert rates(schedule, [1.0] * 99) == [1, 1, 1, 0.5, 0.5]


def test_early_stop_counts_from_the_last_better_score():
    settings = Training(lr=1.0, schedule=Interval(interval=1000), early_stop=3)
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


@pytest.mark.parametrize(
    "schedule",
    [Constant(), Plateau(patience=2), Step(6), Cosine(), Interval(3), CosinePerStep(), OneCycle()],
    ids=lambda s: s.name,
)
def test_it_resumes_from_its_state(schedule):
    warmup_epochs = 0.0 if schedule == OneCycle() else 6.5
    settings = Training(schedule=schedule, max_epochs=20, warmup_epochs=warmup_epochs)
    scores = [1.0, 0.9, 0.95, 0.95, 0.95, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8]
    whole = Schedule(settings, True, 4)
    expected = step_rates(whole, scores)
    first = Schedule(settings, True, 4)
    found = step_rates(first, scores[:5])
    second = Schedule(settings, True, 4)
    second.restore(json.loads(json.dumps(first.state())))
    assert found + step_rates(second, scores[5:]) == expected
    assert second == whole
    assert len(set(expected)) > 1  # the warm-up, if nothing else


@pytest.mark.parametrize("steps_per_epoch", [1, 2, 7])
@pytest.mark.parametrize("max_epochs", [1, 2, 10])
def test_one_cycle_is_that_of_torch(max_epochs, steps_per_epoch):
    num_steps = max_epochs * steps_per_epoch
    schedule = Schedule(Training(lr=0.5, schedule=OneCycle(), max_epochs=max_epochs), True, steps_per_epoch)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    peer = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.5, total_steps=num_steps, cycle_momentum=False)
    expected = []
    for _ in range(num_steps):
        expected.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        if len(expected) < num_steps:
            peer.step()
    found = step_rates(schedule, [1.0] * 99)
    assert found == pytest.approx(expected, rel=1e-9)
    assert found[-1] == pytest.approx(0.5 / 25e4)


@pytest.mark.parametrize("warmup_epochs", [0.0, 0.5, 2.0])
def test_cosine_per_step_by_its_formula(warmup_epochs):
    num_epochs, num_steps = 5, 6  # per epoch
    settings = Training(lr=2.0, schedule=CosinePerStep(), max_epochs=num_epochs, warmup_epochs=warmup_epochs)
    found = step_rates(Schedule(settings, True, num_steps), [1.0] * 99)
    assert len(found) == num_epochs * num_steps
    num_warm = int(warmup_epochs * num_steps)
    top = max(num_warm - 1, 0)  # the first step with the full rate
    assert found[:top] == pytest.approx([2.0 * (step + 1) / num_warm for step in range(top)])
    assert found[top] == 2.0
    last = len(found) - 1
    for step in range(top, last + 1):
        assert found[step] == pytest.approx(1 + math.cos(math.pi * (step - top) / (last - top)), abs=1e-15), step
    assert found[last] == 0.0


def test_cosine_per_step_of_a_few_steps():
    for max_epochs, warmup_epochs, expected in ((1, 0.0, [1.0]), (2, 0.0, [1.0, 0.0]), (2, 2.0, [0.5, 1.0])):
        settings = Training(lr=1.0, schedule=CosinePerStep(), max_epochs=max_epochs, warmup_epochs=warmup_epochs)
        assert step_rates(Schedule(settings, True), [1.0] * 9) == expected


def test_warm_up_of_schedules_per_epoch():
    settings = Training(lr=1.0, schedule=Interval(interval=2, factor=0.5), max_epochs=4, warmup_epochs=1.5)
    found = step_rates(Schedule(settings, True, 4), [1.0] * 99)
    ramp = [(step + 1) / 6 for step in range(6)]
    assert found == pytest.approx([*ramp, 1, 1, *[0.5] * 8])
    plateau = Schedule(Training(lr=1.0, warmup_epochs=3, schedule=Plateau(patience=1, factor=0.5)), True, 2)
    # The score is flat from the start: halved after epoch 3, while the rate has just reached its height.
    assert step_rates(plateau, [1.0] * 5) == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1, 0.5, 0.5, 0.5, 0.5])


def test_a_short_warm_up_is_one_step_at_least():
    schedule = Schedule(Training(lr=1.0, schedule=Cosine(), max_epochs=2, warmup_epochs=1e-3), True, 3)
    assert step_rates(schedule, [1.0] * 2) == pytest.approx([1, 1, 1, 0.5, 0.5, 0.5])


def test_without_warm_up_every_step_of_an_epoch_has_its_rate():
    schedule = Schedule(Training(lr=0.3, schedule=Cosine(), max_epochs=7), True, 3)
    by_epoch = rates(Schedule(schedule.settings, True), [1.0] * 99)
    assert step_rates(schedule, [1.0] * 99) == [rate for rate in by_epoch for _ in range(3)]
