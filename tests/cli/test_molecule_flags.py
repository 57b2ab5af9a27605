"""Flags of `crawl train csv` for data as chemists have them."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from crawl.runs import TrainedModel

pytest.importorskip("rdkit")

PARTS = {"train": "C CC CCC CCO CCN CCCC", "valid": "CCCO CCCN", "test": "CCCCC CCCCO CCCCN"}


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A folder with three files."""
    folder = tmp_path / "parts"
    folder.mkdir()
    for part, smiles in PARTS.items():
        rows = [f"{each},{len(each)}.{i}" for i, each in enumerate(smiles.split())]
        (folder / f"{part}.csv").write_text("\n".join(["smiles,logS", *rows]) + "\n")
    return folder


def read(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(name).read_text().splitlines()))


def test_three_files_are_trained_on_resumed_and_evaluated(crawl, tiny, three):
    files = {"path": three / "train.csv", "val-path": three / "valid.csv", "test-path": three / "test.csv"}
    flags = [word for name, file in files.items() for word in (f"--data.{name}", file)]
    assert crawl("train", "csv", *flags, *tiny, "--out", "run").code == 0
    record = json.loads(Path("run/result.json").read_text())
    assert record["num_graphs"] == {"train": 6, "val": 2, "test": 3}
    assert record["config"]["data"]["split"] == "files"
    score = crawl("evaluate", "run").out
    moved = three.rename(three.with_name("elsewhere"))
    assert "There is no file" in crawl.error("evaluate", "run")
    by_name = [moved / name for name in ("train.csv", "valid.csv", "test.csv")]
    for places in ([moved], by_name):
        assert crawl("evaluate", "run", "--data", *places).out == score.replace(three.name, moved.name)
    assert "the nodes and edges have changed" in crawl.error("evaluate", "run", "--data", *reversed(by_name))
    assert "--data takes one path, or those of three files, not 2" in crawl.error(
        "evaluate", "run", "--data", *by_name[1:]
    )
    Path("run/result.json").unlink()
    named = ["--data.path", by_name[0], "--data.val-path", by_name[1], "--data.test-path", by_name[2]]
    assert crawl("train", "--resume", "run", *named).code == 0
    assert json.loads(Path("run/result.json").read_text())["scores"] == record["scores"]
    assert json.loads(Path("run/where.json").read_text())["test_path"] == str(by_name[2])
    shutil.copytree(moved, three)
    assert crawl("train", "csv", "--data.path", three, *tiny, "--out", "of_folder").code == 0
    assert json.loads(Path("of_folder/result.json").read_text())["scores"] == record["scores"]


def test_flags_that_do_not_go_with_three_files(crawl, three):
    for flag in (["--data.split", "random"], ["--data.fractions", "0.8", "0.1", "0.1"]):
        line = crawl.error("train", "csv", "--data.path", three, *flag)
        assert line.endswith(f"The split that three files give cannot be changed by {flag[0]}: leave it out.")
    line = crawl.error("train", "csv", "--data.path", three / "train.csv", "--data.val-path", three / "valid.csv")
    assert "--data.test-path (in Python test_path=…) is missing" in line
    assert "tu cannot be changed by --data.val-path" in crawl.error("train", "tu", "--data.val-path", three)
    assert not Path("runs").exists()


def test_folds_of_a_table(crawl, tiny, molecules):
    data = ["--data.path", molecules, "--data.targets", "active"]
    folds = ["--protocol", "folds", "--folds", "3"]
    done = crawl("train", "csv", *data, *folds, *tiny, "--out", "run")
    assert done.code == 0
    assert "over 3 models" in done.out
    splits = [json.loads(Path(f"run/fold-{k}/split.json").read_text()) for k in (0, 1, 2)]
    assert sorted(i for split in splits for i in split["test"]) == list(range(11))
    assert [split["val"] for split in splits] == [splits[1]["test"], splits[2]["test"], splits[0]["test"]]
    active = [0] * 5 + [1] * 6
    assert {sum(active[i] for i in split["test"]) for split in splits} == {2}  # classes are spread evenly
    shutil.rmtree("run/fold-2")
    assert "fold 2" in crawl("info", "run").out
    again = crawl("train", "--resume", "run")
    assert again.out.splitlines()[-2] == done.out.splitlines()[-2]
    assert "holds a run" not in again.err
    assert crawl("evaluate", "run/fold-2").code == 0
    assert "exists already: resume it" in crawl.error("train", "csv", *data, *folds, *tiny, "--out", "run")
    line = crawl.error("train", "csv", *data, *folds, "--data.split", "kind", *tiny, "--out", "other")
    assert "Folds are drawn, so data.split='kind'" in line
    line = crawl.error("train", "csv", *data, "--protocol", "folds", "--folds", "12", *tiny, "--out", "other")
    assert "num_folds must be from 3 to 11, the number of graphs, not 12" in line
    assert not Path("other").exists()


def test_several_seeds(crawl, tiny, molecules):
    data = ["--data.path", molecules, "--data.targets", "logS", "--seed", "4"]
    done = crawl("train", "csv", *data, "--protocol", "seeds", "--seeds", "2", *tiny, "--out", "run")
    assert done.code == 0
    assert "over 2 models" in done.out
    assert "seed 5" in done.out
    shutil.rmtree("run/seed-5")
    assert "1 of 2 seeds are done" in crawl("info", "run").out
    assert crawl("train", "--resume", "run").out.splitlines()[-2] == done.out.splitlines()[-2]
    Path("run/.seeds").write_text("4 five")
    assert ".seeds is damaged" in crawl.error("train", "--resume", "run")


def test_columns_and_descriptors_reach_the_head(crawl, tiny, tmp_path):
    smiles = ["C", "CC", "CCC", "CCO", "CCN", "CCCC", "CCCO", "CCCN", "CCCCC", "CCCCO", "CCCCN", "CCCCCC"]
    rows = [f"{each},{i}.5,{280 + i % 3},{'ab'[i % 2]}" for i, each in enumerate(smiles)]
    path = tmp_path / "molecules.csv"
    path.write_text("\n".join(["smiles,logS,T,phase", *rows]) + "\n")
    data = ["--data.path", path, "--data.targets", "logS", "--data.columns", "T", "phase", "--data.descriptors"]
    assert crawl("train", "csv", *data, *tiny, "--out", "run").code == 0
    assert re.search(r"graph features +T, phase, \d+ descriptors", crawl("info", "run").out)
    assert crawl("predict", "run", path, "-o", "out.csv").code == 0
    predicted = read("out.csv")
    assert crawl("evaluate", "run").code == 0
    rows[0], rows[1], rows[2] = "C,0.5,,a", "CC,1.5,warm,b", "CCC,2.5,280,c"
    cells = [row.split(",") for row in rows]
    path.write_text("\n".join(["phase,T,smiles", *(f"{phase},{t},{each}" for each, _, t, phase in cells)]))
    done = crawl("predict", "run", path, "-o", "other.csv")
    again = read("other.csv")
    assert [row["reason"] for row in again[:3]] == ["T is missing", "T is 'warm', not a number", ""]
    assert "'c' in phase (1 graph)" in done.err
    assert [row["predicted_logS"] for row in again[3:]] == [row["predicted_logS"] for row in predicted[3:]]
    assert "were not there in training: 'c' in phase" in crawl.error("predict", "run", path, "--unknown", "error")
    path.write_text("smiles\nC\n")
    assert "has no column 'T'" in crawl.error("predict", "run", path)
    trained = TrainedModel.load("run")
    with pytest.raises(ValueError, match="also needs the columns T, phase"):
        trained.predict(["CCO"])


def test_descriptors_alone_need_no_table(crawl, tiny, molecules):
    data = ["--data.path", molecules, "--data.targets", "logS", "--data.descriptors"]
    assert crawl("train", "csv", *data, *tiny, "--out", "run").code == 0
    assert crawl("predict", "run", molecules, "-o", "out.csv").code == 0
    rows = [row for row in read("out.csv") if not row["reason"]]
    found = TrainedModel.load("run").predict([*(row["SMILES"] for row in rows), "nonsense"], unreadable="nan").mean
    assert [f"{value:.4g}" for value in found[:-1, 0]] == [f"{float(row['predicted_logS']):.4g}" for row in rows]


def test_several_molecules_in_a_row(crawl, tiny, tmp_path):
    smiles = ["C", "CC", "CCC", "CCO", "CCN", "CCCC", "CCCO", "CCCN", "CCCCC", "CCCCO"]
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(["solute,solvent,y", *(f"{each},{'CO'[i % 2]},{i}.5" for i, each in enumerate(smiles))]))
    data = ["--data.path", path, "--data.smiles", "solute", "solvent"]
    assert crawl("train", "csv", *data, *tiny, "--out", "run").code == 0
    config = json.loads(Path("run/config.json").read_text())
    assert config["data"]["smiles"] == ["solute", "solvent"]
    assert crawl("predict", "run", path, "-o", "out.csv").code == 0
    assert all(row["predicted_y"] for row in read("out.csv"))
    path.write_text(path.read_text().replace("solvent", "medium"))
    assert "has no column 'solvent'" in crawl.error("predict", "run", path)
    assert crawl("predict", "run", path, "--smiles", "solute", "medium", "-o", "other.csv").code == 0
    assert [row["predicted_y"] for row in read("other.csv")] == [row["predicted_y"] for row in read("out.csv")]
    assert "The model reads 2 SMILES columns, not the 1 of" in crawl.error("predict", "run", path, "--smiles", "solute")
    with pytest.raises(ValueError, match="reads 2 molecules side by side"):
        TrainedModel.load("run").predict(["CCO"])


def test_targets_of_atoms(crawl, tiny, tmp_path):
    smiles = ["CC", "CCC", "CCO", "CCN", "CCCC", "CCCO", "CCCN", "CCCCC", "CCCCO", "CCCCN"]
    rows = [f'{each},"{[len(each) + i / 2 for i in range(len(each))]}"' for each in smiles]
    path = tmp_path / "atoms.csv"
    path.write_text("\n".join(["smiles,shift", *rows]))
    data = ["--data.path", path, "--data.level", "atom"]
    done = crawl("train", "csv", *data, *tiny, "--out", "run")
    assert done.code == 0
    assert "Task: regression per node" in done.err
    new = tmp_path / "new.csv"
    new.write_text("smiles\nCCO\nnonsense\nCC\n")
    assert crawl("predict", "run", new, "-o", "out.csv").code == 0
    first, bad, last = read("out.csv")
    assert [len(json.loads(row["predicted_shift"])) for row in (first, last)] == [3, 2]
    assert all(isinstance(value, int | float) for value in json.loads(first["walk_spread_shift"]))
    assert bad["predicted_shift"] == ""
    assert "is not a molecule" in bad["reason"]
    found = TrainedModel.load("run").predict(["CCO", "CC"]).mean[:, 0]
    assert json.loads(first["predicted_shift"]) == pytest.approx(found[:3], rel=1e-3)
    assert "use TrainedModel.embed in Python" in crawl.error("embed", "run", new, "-o", "out.npy")
    assert len(TrainedModel.load("run").embed(["CCO", "CC"])) == 5
    assert re.fullmatch(r"C+[NO]?:\d", read("run/predictions.csv")[0]["id"])
    assert crawl("evaluate", "run").code == 0
    words = ("explain", "run", new, "-o", "page.html", "--num-repeats", "1", "--num-points", "2")
    assert "say which to explain, as by --atoms 0 2" in crawl.error(*words)
    assert "numbers from 0, such as 0 2, not '-1'" in crawl.error(*words, "--atoms=-1")
    done = crawl(*words, "--atoms", "0", "2", "--json", "a.json")
    assert done.code == 0, done.err
    rows = json.loads(Path("a.json").read_text())["rows"]
    assert [row["name"] for row in rows] == [
        "1. CCO, atom 0",
        "1. CCO, atom 2",
        "2. nonsense",
        "3. CC, atom 0",
        "3. CC, atom 2",
    ]
    alone = crawl("predict", "run", new, "--num-repeats", "1", "-o", "once.csv")
    assert alone.code == 0
    predicted = json.loads(read("once.csv")[0]["predicted_shift"])
    assert [row["prediction"] for row in rows[:2]] == pytest.approx([predicted[0], predicted[2]], abs=1e-4)
    assert rows[4]["reason"] == "it has no atom 2: its atoms are 0 to 1"
    assert "<h2>1. CCO, atom 2</h2>" in Path("page.html").read_text()


def test_targets_of_bonds(crawl, tiny, tmp_path):
    smiles = ["CC", "C=C", "CCO", "C=CN", "C#CC", "CC=O", "CCCN", "CC=CC", "C#CCO", "C1CC1"]
    orders = [[1], [2], [1, 1], [2, 1], [3, 1], [1, 2], [1, 1, 1], [1, 2, 1], [3, 1, 1], [1, 1, 1]]
    path = tmp_path / "bonds.csv"
    path.write_text("\n".join(["smiles,order", *(f'{a},"{b}"' for a, b in zip(smiles, orders, strict=True))]))
    data = ["--data.path", path, "--data.level", "bond", "--data.task", "multiclass"]
    done = crawl("train", "csv", *data, *tiny, "--training.class-weights", "balanced", "--out", "run")
    assert done.code == 0, done.err
    assert "Task: multiclass per pair" in done.err
    new = tmp_path / "new.csv"
    new.write_text("smiles\nC=CO\nnonsense\nC\n")
    assert crawl("predict", "run", new, "-o", "out.csv").code == 0
    first, bad, bare = read("out.csv")
    assert json.loads(first["bonds"]) == [[0, 1], [1, 2]]
    assert set(json.loads(first["predicted_order"])) <= {1, 2, 3}
    probabilities = json.loads(first["probability_2"])
    assert (bare["bonds"], bare["predicted_order"], bare["reason"]) == ("[]", "[]", "")
    assert bad["bonds"] == bad["predicted_order"] == ""
    assert "is not a molecule" in bad["reason"]
    trained = TrainedModel.load("run")
    assert probabilities == pytest.approx(trained.predict(["C=CO"]).mean[:, 1], rel=1e-3)
    assert "bonds have no embeddings" in crawl.error("embed", "run", new, "-o", "out.npy")
    assert re.fullmatch(r".+:\d-\d", read("run/predictions.csv")[0]["id"])
    assert crawl("evaluate", "run").code == 0
    assert "Links and bonds are pairs of nodes" in crawl.error("explain", "run", new, "-o", "page.html")
    new.write_text("smiles\nC\nO\n")
    assert crawl("predict", "run", new, "-o", "out.csv").code == 0
    assert [row["bonds"] for row in read("out.csv")] == ["[]", "[]"]
    path.write_text(path.read_text().replace('"[1, 2]"', '"[1]"'))
    assert "line 7: order has 1 values, but the molecule 2 bonds" in crawl.error(
        "train", "csv", *data, *tiny, "--data.bad-rows", "refuse", "--out", "other"
    )
