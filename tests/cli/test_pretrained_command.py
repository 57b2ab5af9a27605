"""Commands with the models that come with the package, and with folders of saved models."""

from __future__ import annotations

import csv
from pathlib import Path

import networkx as nx
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
    assert np.load("e.npy").shape == (12, 5 * 48)


def test_elements_that_were_not_there_in_training_are_far(crawl):
    pytest.importorskip("rdkit")
    Path("new.csv").write_text("smiles\nCCO\n[Og]\n")
    done = crawl("predict", "esol", "new.csv", "-o", "out.csv", "--num-repeats", "1", "--device", "cpu")
    assert "2 rows, 1 far from the training data (see the column far)" in done.err
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert [row["far"] for row in rows] == ["0", "1"]
    assert "domain_percentile" not in rows[0]
    with pytest.warns(UserWarning, match="Categories that were not there in training"):
        found = package.from_pretrained("esol", "cpu").distances(["CCO", "[Og]"])
    assert found.percentile is None
    assert found.is_far.tolist() == [False, True]
    with pytest.raises(ValueError, match="neither categories nor features of graphs; load it from the folder"):
        package.from_pretrained("csl", "cpu").distances([nx.cycle_graph(41)])


def test_info_of_a_model_and_of_a_folder(crawl, molecule_runs):
    assert "rmse" in crawl("info", "esol").out
    folder = TrainedModel.load(molecule_runs["logS"], "cpu").save_pretrained("shared")
    assert "regression per graph" in crawl("info", folder).out


def test_fine_tuning(crawl, molecules):
    pytest.importorskip("rdkit")
    words = ("train", "csv", "--data.path", molecules, "--data.targets", "logS", "--init", "esol", "--device", "cpu")
    like_esol = ("--model.hidden-channels", "48", "--training.loss", "beta_nll")
    done = crawl(*words, *like_esol, "--training.max-epochs", "1", "--evaluation.num-test-repeats", "1")
    assert done.code == 0, done.err
    assert "modules begin with weights of esol, the first of its 5 models." in done.err


def test_names_that_are_not_there(crawl, molecules):
    message = crawl.error("predict", "esoll", molecules)
    assert message.endswith("no model of this name comes with the package. Did you mean 'esol'?")
    assert "There is no checkpoint at runs/x" in crawl.error("predict", "runs/x", molecules)
