"""Rows about intervals and sets, and the page that is made of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from reproduction.__main__ import main
from reproduction.uncertainty import MODELS, SPLITS, TARGETS, experiment_of, read_rows, run_rows, uncertainty_page

RESULTS = Path(__file__).parents[2] / "results"


def test_the_page_is_what_its_rows_say():
    rows = read_rows(RESULTS / "uncertainty")
    assert uncertainty_page(rows) == (RESULTS / "uncertainty.md").read_text()


def test_the_page_names_the_rows_that_miss_the_goal():
    rows = [row for row in read_rows(RESULTS / "uncertainty") if row.split == "random"]
    goal = next(line for line in uncertainty_page(rows).splitlines() if line.startswith("Goal"))
    missed = 0
    for row in rows:
        (target,) = row.run["calibration"]["by_target"].values()
        coverage = target["test"]["coverage"]
        is_missed = not 0.85 <= coverage <= 0.95
        missed += is_missed
        assert (f"{MODELS[row.model]}, {100 * coverage:.1f} %" in goal) == is_missed
    assert f"met by {len(rows) - missed} of {len(rows)} rows" in goal


def test_every_row_has_an_experiment():
    for data in TARGETS:
        for split in SPLITS:
            for model in MODELS:
                experiment = experiment_of(data, split, model, 0, 3)
                assert type(experiment).from_json(experiment.to_json()) == experiment
    assert experiment_of("bbbp", "random", "noise", 0, 3).training.loss == "auto"


@pytest.mark.filterwarnings("ignore:Class")
def test_rows_are_run_once(tmp_path, capsys):
    pytest.importorskip("rdkit")
    lines = ["smiles,logS,split"] + [
        f"{'C' * (i % 40 + 1)}{'O' if i < 40 else 'N'},{i % 40}.5,{('train', 'val', 'test')[i % 3]}" for i in range(120)
    ]
    (tmp_path / "esol.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    out = tmp_path / "rows"
    out.mkdir()
    settings = {"data": ("esol",), "models": ("plain",), "epochs": 1, "molecules": tmp_path, "device": "cpu"}
    run_rows(out, **settings, quiet=True)
    rows = read_rows(out)
    assert [row.name for row in rows] == ["esol-random-plain-0", "esol-scaffold-plain-0"]
    before = (out / "esol-random-plain-0.json").stat().st_mtime_ns
    run_rows(out, **settings, quiet=True)
    assert (out / "esol-random-plain-0.json").stat().st_mtime_ns == before
    assert main(["uncertainty", "--report", "--out", str(out)]) == 0
    page = capsys.readouterr().out
    assert page == (out / "uncertainty.md").read_text() == uncertainty_page(rows)
    assert "| ESOL | scaffold | 0 | one model |" in page
    wrong = json.loads((out / "esol-random-plain-0.json").read_text())
    for change in ({"split": "by hand"}, {"format": "other"}, {"run": {}}):
        (out / "esol-random-plain-0.json").write_text(json.dumps(wrong | change))
        with pytest.raises(ValueError, match=r"esol-random-plain-0\.json is damaged or of another version"):
            read_rows(out)


def test_what_cannot_be_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="data must be"):
        run_rows(tmp_path, data=("iris",))
    with pytest.raises(ValueError, match="models must be"):
        run_rows(tmp_path, models=("oracle",))
    with pytest.raises(ValueError, match=r"There is no .*esol\.csv\.gz: give the folder"):
        run_rows(tmp_path, molecules=tmp_path)
    assert main(["uncertainty", "--report", "--out", str(tmp_path)]) == 2
