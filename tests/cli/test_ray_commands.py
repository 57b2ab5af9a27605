"""Commands that share their runs out with Ray: real workers, the results of one process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from crawl.cli import main
from crawl.runs.cluster.connection import OnRay, connect
from crawl.training.checkpoint import load_checkpoint
from tests.runs.cluster.counting import path_for_workers

pytest.importorskip("ray")
TINY = [
    *("--model.hidden-channels", "8", "--model.num-layers", "1", "--walk.num-steps", "6", "--walk.num-eval-steps", "6"),
    *("--walk.window-size", "4", "--evaluation.num-val-repeats", "1", "--evaluation.num-test-repeats", "2"),
    *("--training.max-epochs", "2", "--training.batch-size", "50", "--device", "cpu"),
]


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    """Ray with two workers, which commands find."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path_for_workers())
        with connect(OnRay(at_a_time=2), "cpu"):
            yield


def scores(run: Path) -> dict[str, object]:
    record = json.loads((run / "result.json").read_text())
    return {name: record[name] for name in ("config", "seed", "scores", "best_epoch", "num_epochs")}


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("what", [["--protocol", "seeds", "--seeds", "2"], ["--ensemble", "2"]])
def test_several_models(tmp_path, capsys, what):
    how = ["train", "csl", *TINY, "--threads", "1", *what]
    assert main([*how, "--out", str(tmp_path / "alone"), "--quiet"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert main([*how, "--out", str(tmp_path / "shared"), "--ray", "--ray-jobs", "2"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == len(table)
    names = sorted(path.parent.name for path in (tmp_path / "alone").glob("*/config.json"))
    assert sum(line.endswith(": done") for line in said.err.splitlines()) == len(names) == 2
    for name in names:
        assert scores(tmp_path / "shared" / name) == scores(tmp_path / "alone" / name)
        ours, theirs = (load_checkpoint(tmp_path / run / name / "best.safetensors")[0] for run in ("shared", "alone"))
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    assert main(["train", "--resume", str(tmp_path / "shared"), "--ray", "--quiet"]) == 0  # they are only read


@pytest.mark.usefixtures("ray")
def test_a_search(tmp_path, capsys):
    words = ["tune", "csl", *TINY, "--threads", "1", "--trials", "3", "--out", str(tmp_path / "tune"), "--ray"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Best of 3 trials, by validation accuracy: trial ")
    assert sum(" of 3: validation accuracy " in line for line in said.err.splitlines()) == 3
    for number in (1, 2, 3):
        assert len((tmp_path / "tune" / f"trial-000{number}" / "metrics.jsonl").read_text().splitlines()) == 2
    best = json.loads((tmp_path / "tune" / "best.json").read_text())
    trial = tmp_path / "tune" / f"trial-{best['trial']:04}"
    metrics = [json.loads(line) | {"seconds": 0} for line in (trial / "metrics.jsonl").read_text().splitlines()]
    again = (tmp_path / "tune" / "best" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) | {"seconds": 0} for line in again] == metrics  # the same training, once more
    assert best["validation"] == max(record["val_accuracy"] for record in metrics)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["train", "csl", "--ray"],
            "--ray shares out several runs: give --protocol seeds, --protocol folds or --ensem",
        ),
        (["train", "csl", "--ray-jobs", "2"], "--ray-jobs is for runs that Ray shares out: give --ray, too."),
        (["tune", "csl", "--ray-collect"], "--ray-collect is for runs that Ray shares out: give --ray, too."),
        (["tune", "csl", "--ray", "somewhere"], "The address of Ray (--ray) must be local, auto, HOST:PORT or ray://"),
        (
            ["train", "csl", "--ensemble", "2", "--ray", "--ray-gpus", "-1"],
            "gpus (--ray-gpus) must be a positive number",
        ),
    ],
)
def test_refused(capsys, words, problem):
    assert main(words) == 2
    assert f"crawl: error: {problem}" in capsys.readouterr().err
