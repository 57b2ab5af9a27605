"""The path of a person who has a table of molecules and no Python: train, look, predict with intervals, ask why.

It goes by commands alone, and the browser looks at each page that comes out.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.browser import Browser, look_in_all_windows
from tests.cli.conftest import Crawl

pytest.importorskip("rdkit")
pytest.importorskip("matplotlib")

SMALL = (
    "--model.hidden-channels 24 --model.num-layers 2 --walk.num-steps 12 --walk.num-eval-steps 16 --walk.window-size 4 "
    "--training.max-epochs 10 --training.lr 0.01 --evaluation.num-test-repeats 2 --device cpu"
)
COMMANDS = [
    f"train csv --data.path molecules.csv --data.targets logS --out run {SMALL}",
    "predict run new.csv --interval 0.9 -o predicted.csv",
    "explain run new.csv -o why.html --num-repeats 1 --num-points 2",
]
NEW = ["CCCCCCO", "c1ccccc1CCCCN", "not a molecule", "CC(C)CCl", "[Og]"]
# Pictures that a person sees: drawn, and of a size.
PICTURES = """[...document.querySelectorAll('svg')].filter(each =>
    each.getBoundingClientRect().width > 50 && each.querySelectorAll('path').length > 0)"""
MOLECULES = f"{PICTURES}.map(each => each.getAttribute('aria-label')).filter(each => each.startsWith('Molecule'))"
SHOWN = f"[...document.querySelectorAll('section')].map(section => [section.querySelector('h2').textContent, {PICTURES.replace('document', 'section')}.length])"  # noqa: E501


def write_molecules(path: Path) -> None:
    """220 chains, each with a group at its end, and a solubility that falls with their length; one row is damaged."""
    starts = {"": 0.0, "CC(C)": -0.8, "c1ccccc1": -1.9, "C1CCCCC1": -2.2, "Clc1ccccc1": -2.6}
    ends = {"O": 1.2, "N": 1.0, "Cl": -0.9, "C(=O)O": 1.5}
    lines = [
        f"m{length}-{i}-{j},{start}{'C' * length}{end},{value + addition - 0.5 * length:.2f}"
        for i, (start, value) in enumerate(starts.items())
        for j, (end, addition) in enumerate(ends.items())
        for length in range(1, 12)
    ]
    lines.insert(40, "damaged,C1CC(,0.5")
    path.write_text("\n".join(["name,smiles,logS", *lines]) + "\n")


@pytest.mark.usefixtures("with_pages")
def test_from_a_table_to_an_explanation(
    browser: Browser, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_molecules(tmp_path / "molecules.csv")
    (tmp_path / "new.csv").write_text("\n".join(["smiles", *NEW]) + "\n")
    crawl = Crawl(capsys)
    trained, predicted, explained = [crawl(*command.split()) for command in COMMANDS]

    assert (trained.code, predicted.code, explained.code) == (0, 0, 0), (trained.err, predicted.err, explained.err)
    assert "skipped line 42: 'C1CC(' is not a molecule" in trained.err
    assert "to look at: run/report.html" in trained.out  # the person is told where to look
    seen = browser.look_at(tmp_path / "run" / "report.html", tmp_path, questions=(MOLECULES,))
    drawn = {label.removeprefix("Molecule ") for label in seen.answers[0]}
    assert len(drawn) >= 5  # the largest errors
    with open(tmp_path / "molecules.csv", newline="") as file:
        assert drawn <= {row["smiles"] for row in csv.DictReader(file)}

    with open(tmp_path / "predicted.csv", newline="") as file:
        rows = {row["smiles"]: row for row in csv.DictReader(file)}
    assert list(rows) == NEW
    assert "not a molecule" in rows.pop("not a molecule")["reason"]
    for row in rows.values():
        assert row["reason"] == ""
        assert float(row["lower_logS"]) < float(row["predicted_logS"]) < float(row["upper_logS"])
    assert {smiles: row["far"] for smiles, row in rows.items()}["[Og]"] == "1"
    assert "5 rows, 1 without a prediction" in predicted.err

    page = browser.look_at(tmp_path / "why.html", tmp_path, questions=(SHOWN,))
    sections = dict(page.answers[0][:-1])
    assert [name.partition(". ")[2] for name in sections] == NEW
    *chains, atom = [number for name, number in sections.items() if "not a" not in name]
    assert sections["3. not a molecule"] == 0
    assert min(chains) >= 2  # the molecule, and its subgraphs
    assert atom == 1

    for name in ("run/report.html", "why.html"):
        for seen in look_in_all_windows(browser, tmp_path / name, "stranger", is_whole=True).values():
            assert seen.requests == []
