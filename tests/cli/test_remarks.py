"""What is said about data before a training: which columns of a table a model sees."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
import torch

from crawl import WalkPlan
from crawl.cli.remarks import (
    described_features,
    described_scores,
    described_split,
    described_task,
    inexact_walks,
    shared_molecules,
    unequal_targets,
    unused_split,
)
from crawl.data import Task, from_csv, from_graph, from_pyg
from crawl.runs import Csv, Result, TrainedModel
from tests.data.test_nodes import ring


def test_columns_of_molecules(tmp_path):
    pytest.importorskip("rdkit")
    path = tmp_path / "molecules.csv"
    smiles = ["C", "CC", "CCO", "CCN", "CO", "CN", "CCC", "CCCC", "CF", "CCl"]
    rows = [f"{each},{i / 3},{20 + i},{'ab'[i % 2]},x" for i, each in enumerate(smiles)]
    path.write_text("\n".join(["smiles,y,t,solvent,note", *rows]))
    alone = from_csv(path, target_columns="y")
    assert described_features(alone) == "Features: the molecule alone; no other column is used."
    more = from_csv(path, target_columns="y", feature_columns=["t", "solvent"], descriptors=True)
    number = len(more.columns.descriptors)
    assert described_features(more) == (
        f"Features: the molecule; columns t (numbers), solvent (2 values); {number} descriptors. "
        "No other column is used."
    )


def test_data_without_tables_say_nothing():
    graphs = [ring() for _ in range(4)]
    for i, graph in enumerate(graphs):
        del graph.train_mask, graph.val_mask, graph.test_mask
        graph.y = torch.tensor([i / 2])
    assert described_features(from_pyg(graphs, fractions=(0.5, 0.25, 0.25))) == ""


def test_an_unused_column_split_is_told_of(crawl, tiny, tmp_path):
    pytest.importorskip("rdkit")
    path = tmp_path / "molecules.csv"
    words = ["train"] * 6 + ["valid"] * 3 + ["Test"] * 3
    path.write_text(
        "smiles,y,Split,set\n" + "".join(f"{'C' * (i + 1)},{i / 3},{word},{i}\n" for i, word in enumerate(words))
    )
    line = "There is a column 'Split' with train, valid, Test: --data.split Split uses it."
    assert unused_split(Csv(targets=("y",)), str(path)) == line
    assert unused_split(Csv(targets=("y",), split="Split"), str(path)) == ""
    assert unused_split(Csv(targets=("y",), num_folds=3), str(path)) == ""
    data = ("--data.path", path, "--data.targets", "y")
    assert line in crawl("train", "csv", *data, *tiny).err.splitlines()
    done = crawl("train", "csv", *data, "--data.split", "Split", *tiny)
    assert line not in done.err
    assert "Split: given by 'Split': 6 for training, 3 for validation, 3 for the test." in done.err.splitlines()
    path.write_text(path.read_text().replace("Test", "later"))
    assert unused_split(Csv(targets=("y",)), str(path)) == ""


def test_how_data_are_split(tmp_path):
    pytest.importorskip("rdkit")
    path = tmp_path / "molecules.csv"
    path.write_text("smiles,y\n" + "".join(f"{'C' * (i + 1)},{i / 3}\n" for i in range(10)))
    dataset, sizes = from_csv(path), "8 for training, 1 for validation, 1 for the test."
    assert described_split(dataset, Csv()) == f"Split: drawn at random: {sizes}"
    assert (
        described_split(dataset, Csv(split="scaffold", num_folds=5))
        == f"Split: drawn by scaffold, one of 5 folds: {sizes}"
    )
    assert described_split(dataset, None) == ""


def test_targets_of_different_sizes(crawl, tiny, tmp_path):
    pytest.importorskip("rdkit")
    path = tmp_path / "molecules.csv"
    path.write_text("smiles,a,b,c\n" + "".join(f"{'C' * (i + 1)},{i / 3},{1000 * i + 0.5},{i}\n" for i in range(10)))
    line = unequal_targets(from_csv(path, target_columns=["a", "b"]))
    assert line.startswith("Targets are of different sizes (standard deviation ")
    assert line.endswith("is mostly that of 'b': --data.metric r2 lets all targets count alike.")
    assert unequal_targets(from_csv(path, target_columns=["a", "c"])) == ""
    assert unequal_targets(from_csv(path, target_columns=["a", "b"], metric="r2")) == ""
    assert unequal_targets(from_csv(path, target_columns="b")) == ""
    done = crawl(
        "train", "csv", "--data.path", path, "--data.targets", "a", "b", "--data.fractions", "0.6", "0.2", "0.2", *tiny
    )
    assert line.partition(" (")[0] in done.err
    lines = done.out.splitlines()
    at = lines.index("Test mae of each target:")
    assert [each.split(":")[0] for each in lines[at + 1 : at + 3]] == ["  a", "  b"]
    assert float(lines[at + 1].split(":")[1]) > 0


def test_rows_that_lack_some_targets(crawl, tiny, tmp_path):
    pytest.importorskip("rdkit")
    path = tmp_path / "molecules.csv"
    parts = ["train"] * 8 + ["val"] * 4 + ["test"] * 4
    rows = [f"{'C' * (i + 1)},{i / 3},{'' if i % 4 == 1 else 5 - i},{part}\n" for i, part in enumerate(parts)]
    path.write_text("smiles,a,b,part\n" + "".join(rows) + "CCN,,,train\n")
    data = ("--data.path", path, "--data.targets", "a", "b", "--data.split", "part")
    done = crawl("train", "csv", *data, "--out", "run", *tiny)
    assert done.code == 0, done.err
    assert "4 of 16 rows lack some targets: each target is learned and scored by the rows that have it." in done.err
    assert "skipped line 18: all targets are missing" in done.err
    record = json.loads(Path("run/result.json").read_text())
    assert record["num_graphs"] == {"train": 8, "val": 4, "test": 4}
    with open("run/predictions.csv") as file:
        predicted = list(csv.DictReader(file))
    assert len(predicted) == 4
    assert all(math.isfinite(float(row[f"mean_{name}"])) for row in predicted for name in "ab")
    test = record["scores"]["test"]
    assert test["mean"] == pytest.approx((test["by_target"]["a"]["mean"] + test["by_target"]["b"]["mean"]) / 2)
    # What is missing counts for nothing: scaling, loss and scores are those of the known values.
    trained = TrainedModel.load("run", "cpu")
    known = torch.tensor([5.0 - i for i in range(8) if i % 4 != 1])
    assert trained.scaling.mean[1] == pytest.approx(float(known.mean()))
    assert trained.scaling.deviation[1] == pytest.approx(float(known.std(correction=0)))


def test_a_target_without_a_value_in_training_is_warned_of(crawl, tiny, tmp_path):
    pytest.importorskip("rdkit")
    path = tmp_path / "molecules.csv"
    parts = ["train"] * 6 + ["val"] * 3 + ["test"] * 3
    rows = [f"{'C' * (i + 1)},{i / 3},{'' if part == 'train' else i},{part}\n" for i, part in enumerate(parts)]
    path.write_text("smiles,a,b,part\n" + "".join(rows))
    data = ("--data.path", path, "--data.targets", "a", "b", "--data.split", "part")
    with pytest.warns(UserWarning, match="No training graph has a value of b, so nothing is learned about it"):
        crawl("train", "csv", *data, *tiny)


def test_scores_of_at_most_twelve_targets():
    scores = {"test": {"by_target": {f"t{i}": {"mean": None if i == 1 else 1e-6 + i} for i in range(15)}}}
    result = Result(Path("run"), {"metric": "mae", "scores": scores})
    lines = described_scores([result, result])
    assert lines[:3] == ["Test mae of each target, mean over 2 models:", "  t0: 1e-06", "  t1: –"]
    assert len(lines) == 14
    assert lines[-1] == "  … and 3 more, in result.json"
    assert described_scores([Result(Path("run"), {"metric": "mae", "scores": {"test": {}}})]) == []


def test_a_molecule_in_several_parts(tmp_path):
    pytest.importorskip("rdkit")
    path = tmp_path / "molecules.csv"
    parts = ["train"] * 5 + ["val"] * 2 + ["test"] * 2
    smiles = ["CCO", "CC", "C", "C", "CCC", "OCC", "CN", "C(O)C", "CF"]
    rows = (f"{each},{i / 3},{part}\n" for i, (each, part) in enumerate(zip(smiles, parts, strict=True)))
    path.write_text("smiles,y,part\n" + "".join(rows))
    dataset = from_csv(path, target_columns="y", split="part")
    assert shared_molecules(dataset, Csv(split="part")) == (
        "1 molecule is in more than one part of the split (3 rows), so scores may be better than on new molecules: "
        "--data.split scaffold keeps a molecule in one part."
    )
    path.write_text(path.read_text().replace("OCC", "CCCC").replace("C(O)C", "CCl"))
    dataset = from_csv(path, target_columns="y", split="part")  # methane is twice in one part
    assert shared_molecules(dataset, Csv(split="part")) == ""


def test_numbers_that_became_classes():
    hint = "(if these are quantities, not classes: --data.task regression)"
    task = Task(kind="multiclass", num_outputs=3, target_names=("y",), class_names=("4", "5", "6"))
    assert described_task(task, is_found=True).endswith(f"'y' is one of '4', '5', '6' {hint}.")
    assert hint not in described_task(task)
    words = Task(kind="multiclass", num_outputs=3, target_names=("y",), class_names=("a", "b", "6"))
    assert hint not in described_task(words, is_found=True)
    usual = Task(kind="binary", num_outputs=1, target_names=("y",), class_names=("0", "1"))
    assert hint not in described_task(usual, is_found=True)


def test_centred_walks_with_another_law_are_told_of():
    of_degrees, plain = (WalkPlan(strategy=name, centred=True) for name in ("min_degree_non_backtracking", "uniform"))
    graphs = [ring(y=torch.tensor([i / 2]), train_mask=None, val_mask=None, test_mask=None) for i in range(4)]
    for dataset in (from_graph(ring()), from_pyg(graphs, fractions=(0.5, 0.25, 0.25))):
        assert inexact_walks(dataset, of_degrees).endswith("(docs/walks.md): --walk.strategy uniform is exact.")
        assert not inexact_walks(dataset, plain)
        assert not inexact_walks(dataset, WalkPlan(centred=True))
        assert not inexact_walks(dataset, WalkPlan(strategy="min_degree_non_backtracking"))
    twice = ring()
    twice.edge_index = torch.cat([twice.edge_index, twice.edge_index[:, [0, 11]]], dim=1)
    assert inexact_walks(from_graph(twice), WalkPlan(centred=True)).startswith("Some edges are listed several times")
