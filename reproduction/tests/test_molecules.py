"""Rows about four sets of molecules, and the page that is made of them."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

import reproduction.molecules as molecules
from reproduction.__main__ import main
from reproduction.molecules import SETS, TITLES, molecules_page, networks, read_rows, run_rows, trials

RESULTS = Path(__file__).parents[2] / "results"


def test_the_page_is_what_its_rows_say():
    rows = read_rows(RESULTS / "molecules")
    assert molecules_page(rows) == (RESULTS / "molecules.md").read_text()


def test_a_network_of_the_table_is_one_of_the_trials():
    for data in ("esol", "bbbp"):
        tried = list(trials(data).values())
        found = networks(data)
        assert set(found) == set(TITLES) - {"forest-fingerprints", "forest-descriptors"}
        assert found["crawl"] in tried
        assert found["hybrid"] in tried
        assert found["crawl-descriptors"].data.descriptors


def test_rows_are_run_once_and_damaged_ones_are_refused(tmp_path, capsys, monkeypatch):
    pytest.importorskip("rdkit")
    monkeypatch.setattr(molecules, "NUM_MEMBERS", 2)
    monkeypatch.setattr(molecules, "NUM_FOREST_SEEDS", 2)
    monkeypatch.setitem(SETS, "esol", replace(SETS["esol"], epochs=1))
    lines = ["smiles,logS,split"] + [
        f"{'C' * (i % 40 + 1)}{'O' if i < 40 else 'N'},{i % 40}.5,{('train', 'val', 'test')[i % 3]}" for i in range(120)
    ]
    (tmp_path / "esol.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    out = tmp_path / "rows"
    out.mkdir()
    models = ("crawl", "forest-descriptors", "trial-crawl")
    settings = {"data": ("esol",), "models": models, "molecules": tmp_path, "device": "cpu", "quiet": True}
    run_rows(out, **settings)
    rows = read_rows(out)
    assert [row.model for row in rows] == list(models)
    assert [len(row.members or row.run.get("members", ())) for row in rows] == [2, 2, 0]
    before = (out / "esol-crawl.json").stat().st_mtime_ns
    run_rows(out, **settings)
    assert (out / "esol-crawl.json").stat().st_mtime_ns == before
    assert main(["molecules", "--report", "--out", str(out)]) == 0
    page = capsys.readouterr().out
    assert page == (out / "molecules.md").read_text() == molecules_page(rows)
    forest = rows[1].run["scores"]["test"]["of_mean_prediction"]
    assert f"| a forest on descriptors | {rows[1].run['scores']['val']['of_mean_prediction']:.3f} |" in page
    assert f"| {forest:.3f} | – |" in page
    wrong = json.loads((out / "esol-crawl.json").read_text())
    for change in ({"data": "iris"}, {"format": "other"}, {"run": {}}, {"members": []}):
        (out / "esol-crawl.json").write_text(json.dumps(wrong | change))
        with pytest.raises(ValueError, match=r"esol-crawl\.json is damaged or of another version"):
            read_rows(out)


def test_what_cannot_be_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="data must be"):
        run_rows(tmp_path, data=("iris",))
    with pytest.raises(ValueError, match="models must be"):
        run_rows(tmp_path, models=("oracle",))
    with pytest.raises(ValueError, match=r"There is no .*esol\.csv\.gz: give the folder"):
        run_rows(tmp_path, molecules=tmp_path)
    assert main(["molecules", "--report", "--out", str(tmp_path)]) == 2
