"""Commands with the models that come with the package, and with folders of saved models."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import crawl as package
from crawl.runs import TrainedModel
from crawl.runs.packaged import packaged_models


def test_the_list(crawl):
    done = crawl("pretrained")
    assert done.code == 0
    for name in packaged_models():
        score = package.from_pretrained(name, "cpu").record["scores"]["test"]["mean"]
        (row,) = (line for line in done.out.splitlines() if line.split()[:1] == [name])
        assert f"{score:.4f}" in row


def test_predict_and_embed_by_name(crawl, molecules):
    pytest.importorskip("rdkit")
    flags = ("--num-repeats", "1", "--device", "cpu")
    assert crawl("predict", "esol", molecules, "-o", "out.csv", *flags).code == 0
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    expected = package.from_pretrained("esol", "cpu").predict("CCO", num_repeats=1).mean[0, 0]
    assert float(rows[5]["predicted_logS"]) == pytest.approx(expected, abs=1e-3)
    assert rows[3]["predicted_logS"] == ""
    assert crawl("embed", "esol", molecules, "-o", "e.npy", *flags).code == 0
    assert np.load("e.npy").shape == (12, 64)


def test_info_of_a_model_and_of_a_folder(crawl, molecule_runs):
    assert "rmse" in crawl("info", "esol").out
    folder = TrainedModel.load(molecule_runs["logS"], "cpu").save_pretrained("shared")
    assert "regression per graph" in crawl("info", folder).out


def test_fine_tuning(crawl, molecules):
    pytest.importorskip("rdkit")
    words = ("train", "csv", "--data.path", molecules, "--data.targets", "logS", "--init", "esol", "--device", "cpu")
    like_esol = ("--model.layer", "walk", "gine", "virtual_node", "--model.hidden-channels", "64")
    quick = ("--training.max-epochs", "1", "--encodings.return-steps", "16", "--evaluation.num-test-repeats", "1")
    done = crawl(*words, *like_esol, *quick)
    assert done.code == 0, done.err
    assert "modules begin with weights of esol." in done.err


def test_names_that_are_not_there(crawl, molecules):
    message = crawl.error("predict", "esoll", molecules)
    assert message.endswith("no model of this name comes with the package. Did you mean 'esol'?")
    assert "There is no checkpoint at runs/x" in crawl.error("predict", "runs/x", molecules)
