from __future__ import annotations

import math

import pytest

from crawl.training.settings import Evaluation, Interval, OneCycle, Plateau, Step, Training


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", 0.0),
        ("lr", math.nan),
        ("batch_size", 0),
        ("max_epochs", -1),
        ("early_stop", 0),
        ("clip_norm", 0.0),
        ("optimiser", "adamm"),
        ("weight_decay", -0.1),
        ("accumulate", 0),
        ("warmup_epochs", -1.0),
        ("warmup_epochs", 1001.0),
        ("average_decay", 1.0),
        ("average_decay", 0.0),
    ],
)
def test_settings_that_make_no_sense(name, value):
    with pytest.raises(ValueError, match=rf"^training\.{name} must"):
        Training(**{name: value})


@pytest.mark.parametrize("kind", [Plateau, Step, Interval])
def test_a_factor_lowers_the_rate(kind):
    with pytest.raises(ValueError, match=r"^training\.schedule\.factor must be .* between 0 and 1, not 1\.0"):
        kind(factor=1.0)


def test_schedules_that_make_no_sense():
    with pytest.raises(ValueError, match=r"training\.min_lr must not be above training\.lr=0\.001, as 1\.0 is"):
        Training(schedule=Plateau(min_lr=1.0))
    with pytest.raises(ValueError, match=r"training\.schedule\.patience must be a whole number .*, not 0"):
        Plateau(patience=0)
    with pytest.raises(ValueError, match=r"training\.schedule must be one of Plateau\(\), .*, not 'cosine'"):
        Training(schedule="cosine")


def test_evaluation_that_makes_no_sense():
    with pytest.raises(ValueError, match=r"^evaluation\.num_val_repeats must be a whole number from 1 .*, not 0"):
        Evaluation(num_val_repeats=0)
    with pytest.raises(ValueError, match=r"^evaluation\.val_every must be a whole number from 1 .*, not 0"):
        Evaluation(val_every=0)
    with pytest.raises(ValueError, match=r"^evaluation\.num_norm_graphs must be a whole number from 0 .*, not -1"):
        Evaluation(num_norm_graphs=-1)


def test_one_cycle_has_its_own_warm_up():
    with pytest.raises(ValueError, match=r"warmup_epochs=2\.0 .* leave it out, or use cosine_per_step"):
        Training(schedule=OneCycle(), warmup_epochs=2.0)


@pytest.mark.parametrize(
    ("num_graphs", "num_epochs"),
    [(1, 200), (300, 200), (902, 69), (3360, 20), (400_000, 20)],  # of batches of 32
)
def test_a_number_of_epochs_that_is_not_given_suits_the_number_of_graphs(num_graphs, num_epochs):
    assert Training(max_epochs=None, batch_size=32).for_graphs(num_graphs).num_epochs == num_epochs


def test_a_number_of_epochs_that_is_given_is_kept():
    training = Training(max_epochs=7)
    assert training.for_graphs(902) is training
    assert Training(max_epochs=None, warmup_epochs=30.5).for_graphs(10**6).num_epochs == 31
