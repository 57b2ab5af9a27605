from __future__ import annotations

import csv
import errno
import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from path_graphs import make_dataset

from crawl import Graph
from crawl.data import Fingerprint, Split, Task, csl
from crawl.data.identity import graph_keys
from crawl.runs import Csl, Csv, Experiment, GivenData, Model, TrainedModel, resume_run, run_experiment
from crawl.runs.build import build_model, load_dataset
from crawl.runs.curves import draw_curves
from crawl.runs.environment import environment_record
from crawl.runs.run import Stopped
from crawl.training.checkpoint import load_checkpoint, save_checkpoint
from crawl.training.seeds import derive_seed


def strict(text: str):
    """JSON as its standard has it, without NaN."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def rows(folder: Path) -> list[dict[str, str]]:
    with open(folder / "predictions.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_several_targets_have_their_own_scores(finished):
    score = finished.record["scores"]["test"]
    by_target = score["by_target"]
    assert list(by_target) == ["a", "b"]
    assert sum(one["mean"] for one in by_target.values()) / 2 == pytest.approx(score["mean"])
    assert by_target["a"] != by_target["b"]


class TestTheFolder:
    def test_holds_everything(self, finished):
        names = {path.name for path in finished.folder.iterdir()} - {"events", ".lock"}
        assert names == {
            *(
                "config.json",
                "where.json",
                "data.json",
                "split.json",
                "metrics.jsonl",
                "best.safetensors",
                "last.safetensors",
            ),
            *("result.json", "predictions.csv", "curves.png"),
        }

    def test_the_configuration_repeats_the_run(self, finished, tiny, paths):
        assert Experiment.from_json((finished.folder / "config.json").read_text()) == replace(tiny, data=GivenData())
        assert Split.from_json((finished.folder / "split.json").read_text()).to_json() == paths.split.to_json()

    def test_the_result(self, finished, tiny):
        record = strict((finished.folder / "result.json").read_text())
        assert record == finished.record
        assert record.keys() >= {
            *("config", "seed", "scores", "metric", "best_epoch", "num_epochs", "num_parameters", "wall_time_s"),
            *("steps", "where", "peak_memory_mb", "commit", "versions", "device", "data", "num_graphs", "num_skipped"),
        }
        assert record["config"] == json.loads((finished.folder / "config.json").read_text())
        assert record["num_graphs"] == {"train": 6, "val": 2, "test": 2}
        assert (record["metric"], record["num_epochs"], record["seed"]) == ("mae", 3, 0)
        assert 1 <= record["best_epoch"] <= 3
        weights = load_checkpoint(finished.folder / "best.safetensors")[0]
        assert record["num_parameters"] < sum(tensor.numel() for tensor in weights.values())
        assert record["wall_time_s"] > 0
        assert record["peak_memory_mb"] > 0
        assert record["versions"]["torch"] == torch.__version__
        for part, repeats in {"train": 1, "val": 1, "test": 2}.items():
            score = record["scores"][part]
            assert len(score["evaluations"]) == repeats
            assert score["mean"] == pytest.approx(sum(score["evaluations"]) / repeats)
            assert score["internal_deviation"] >= 0
        assert finished.score() == record["scores"]["test"]["mean"]
        assert finished.score("train") == record["scores"]["train"]["mean"]

    def test_the_score_of_the_mean_is_that_of_the_predictions(self, finished):
        means = {"a": [], "b": []}
        for row in rows(finished.folder):
            for name, errors in means.items():
                if row[f"target_{name}"]:
                    errors.append(abs(float(row[f"target_{name}"]) - float(row[f"mean_{name}"])))
        expected = sum(sum(errors) / len(errors) for errors in means.values()) / 2
        assert finished.record["scores"]["test"]["of_mean_prediction"] == pytest.approx(expected, rel=1e-4)

    def test_the_metrics(self, finished):
        lines = [strict(line) for line in (finished.folder / "metrics.jsonl").read_text().splitlines()]
        assert [line["epoch"] for line in lines] == [1, 2, 3]
        assert all(line.keys() == {"epoch", "lr", "loss", "val_mae", "seconds"} for line in lines)

    def test_the_predictions(self, finished):
        first, second = rows(finished.folder)
        assert list(first) == ["id", "target_a", "target_b", "mean_a", "mean_b", "walk_spread_a", "walk_spread_b"]
        assert (first["id"], first["target_a"], first["target_b"]) == ("path 2", "4", "5")
        assert (second["id"], second["target_a"], second["target_b"]) == ("path 3", "6", "")
        assert all(float(row[key]) >= 0 for row in (first, second) for key in ("walk_spread_a", "walk_spread_b"))

    def test_the_curves(self, finished):
        pytest.importorskip("matplotlib")
        assert (finished.folder / "curves.png").read_bytes().startswith(b"\x89PNG")

    def test_epochs_that_were_not_validated(self, tiny, paths, tmp_path, monkeypatch):
        events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
        figure_module = pytest.importorskip("matplotlib.figure")
        drawn = []
        monkeypatch.setattr("crawl.runs.run.draw_curves", draw_curves)
        monkeypatch.setattr(figure_module.Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
        seldom = replace(tiny, evaluation=replace(tiny.evaluation, val_every=2))
        folder = run_experiment(seldom, tmp_path / "run", dataset=paths).folder
        lines = [strict(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [line["val_mae"] is None for line in lines] == [True, False, False]
        loss, score = (axes.lines[0].get_xdata().tolist() for axes in drawn[0].axes)
        assert (loss, score) == ([1, 2, 3], [2, 3])
        found = events.EventAccumulator(str(folder / "events"))
        found.Reload()
        assert [event.step for event in found.Scalars("val_mae")] == [2, 3]

    def test_events_for_tensorboard(self, finished):
        events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
        found = events.EventAccumulator(str(finished.folder / "events"))
        found.Reload()
        assert [event.step for event in found.Scalars("loss")] == [1, 2, 3]
        assert set(found.Tags()["scalars"]) == {"loss", "lr", "val_mae"}


class TestTasks:
    @pytest.mark.filterwarnings("ignore:The val part has no score")  # of two graphs
    @pytest.mark.filterwarnings("ignore:The test part has no score")
    @pytest.mark.parametrize(
        ("kind", "targets", "num_outputs", "columns"),
        [
            ("binary", torch.tensor([0, 1] * 5), 1, ["target", "mean_0", "mean_1"]),
            ("multiclass", torch.arange(10) % 3, 3, ["target", "mean_x", "mean_y", "mean_z"]),
            ("multilabel", torch.eye(10)[:, :2], 2, ["target_0", "target_1", "mean_0", "mean_1"]),
        ],
    )
    def test_columns_of_predictions(self, tiny, tmp_path, kind, targets, num_outputs, columns):
        names = ("x", "y", "z") if kind == "multiclass" else ()
        task = Task(kind=kind, num_outputs=num_outputs, class_names=names)
        result = run_experiment(tiny, tmp_path / "run", dataset=make_dataset(task, targets))
        found = rows(result.folder)
        assert [row["id"] for row in found] == ["2", "3"]
        assert [name for name in found[0] if not name.startswith(("id", "walk_spread"))] == columns
        strict((result.folder / "result.json").read_text())

    @pytest.mark.parametrize(("kind", "names"), [("binary", ("no", "yes")), ("multiclass", ("N", "O", "10"))])
    def test_targets_are_written_by_the_names_of_their_classes(self, tiny, tmp_path, kind, names):
        task = Task(kind=kind, num_outputs=1 if kind == "binary" else 3, metric="accuracy", class_names=names)
        classes = torch.arange(10) % len(names)
        result = run_experiment(tiny, tmp_path / "run", dataset=make_dataset(task, classes))
        found = rows(result.folder)
        assert [row["target"] for row in found] == [names[2 % len(names)], names[3 % len(names)]]
        assert all(f"mean_{row['target']}" in row for row in found)

    def test_node_level(self, tiny, tmp_path):
        task = Task(kind="binary", level="node", num_outputs=1)
        dataset = make_dataset(task, torch.tensor([0, 1, 1] * 10))
        result = run_experiment(tiny, tmp_path / "run", dataset=dataset)
        found = rows(result.folder)
        assert [row["id"] for row in found] == ["2:0", "2:1", "2:2", "3:0", "3:1", "3:2"]
        assert [row["target"] for row in found] == ["0", "1", "1"] * 2

    def test_a_score_that_does_not_exist_is_null(self, tiny, tmp_path):
        task = Task(kind="binary", num_outputs=1)  # ROC-AUC, and one class only
        with pytest.warns(UserWarning, match="The (val|test) part has no score") as warned:
            result = run_experiment(tiny, tmp_path / "run", dataset=make_dataset(task, torch.ones(10).long()))
        assert [str(warning.message) for warning in warned] == [
            "The val part has no score, so the last epoch is taken for the best: it has one class only, and roc_auc "
            "needs two. Choose another split or metric.",
            "The test part has no score: it has one class only, and roc_auc needs two. Choose another split or metric.",
        ]
        record = strict((result.folder / "result.json").read_text())
        assert record["scores"]["test"]["mean"] is None
        assert record["scores"]["test"]["reason"] == "it has one class only, and roc_auc needs two"
        assert record["best_epoch"] == 3
        assert math.isnan(result.score())
        for line in (result.folder / "metrics.jsonl").read_text().splitlines():
            assert strict(line)["val_roc_auc"] is None

    def test_a_class_without_an_example(self, tiny, tmp_path):
        names = ("a", "b", "c", "d")
        task = Task(kind="multiclass", num_outputs=4, metric="accuracy", class_names=names)
        targets = torch.tensor([0, 1, 2, 3, 0, 1, 0, 1, 0, 1])  # the third and the fourth are the test part
        with pytest.warns(
            UserWarning, match=r"^Classes c, d of the test part: the training part has no example\."
        ) as w:
            run_experiment(tiny, tmp_path / "run", dataset=make_dataset(task, targets))
        assert len(w) == 1

    def test_without_a_test_part(self, tiny, paths, tmp_path):
        dataset = replace(paths, split=Split(torch.arange(8), torch.arange(8, 10), torch.empty(0)))
        result = run_experiment(tiny, tmp_path / "run", dataset=dataset)
        assert rows(result.folder) == []
        assert math.isnan(result.score())

    def test_normalised_targets_are_reported_in_their_unit(self, tiny, tmp_path):
        targets = 1e6 + torch.arange(10.0).view(10, 1)
        dataset = make_dataset(Task(kind="regression", num_outputs=1), targets)
        training = replace(tiny.training, normalise_targets=True)
        result = run_experiment(replace(tiny, training=training), tmp_path / "run", dataset=dataset)
        assert result.score() < 20
        assert all(abs(float(row["mean_0"]) - 1e6) < 20 for row in rows(result.folder))


class TestNewFolders:
    def test_a_folder_in_use_is_refused(self, tiny, paths, tmp_path, finished):
        before = (finished.folder / "result.json").read_text()
        with pytest.raises(
            ValueError, match=r"exists already: resume it with --resume .*, or choose another folder\.$"
        ):
            run_experiment(tiny, finished.folder, dataset=paths)
        assert (finished.folder / "result.json").read_text() == before
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(ValueError, match="exists already: choose another folder"):  # there is no run to resume
            run_experiment(tiny, tmp_path, dataset=paths)
        with pytest.raises(ValueError, match="exists already: choose another folder"):
            run_experiment(tiny, tmp_path / "notes.txt", dataset=paths)
        assert os.listdir(tmp_path) == ["notes.txt"]

    def test_without_a_name_the_first_free_is_taken(self, tiny, paths, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "runs/tiny-2").mkdir(parents=True)
        folders = [run_experiment(tiny, dataset=paths).folder for _ in range(2)]
        assert folders == [Path("runs/tiny-1"), Path("runs/tiny-3")]

    def test_a_wrong_model_leaves_no_folder(self, tiny, paths, tmp_path):
        wrong = replace(tiny, model=replace(tiny.model, kernel_size=4))
        with pytest.raises(ValueError, match="kernel_size"):
            run_experiment(wrong, tmp_path / "run", dataset=paths)
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize("name", ["../trick", "a/b", "/tmp/trick", "a\\b", ""])
    def test_a_name_does_not_lead_out_of_runs(self, tiny, paths, tmp_path, monkeypatch, name):
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        with pytest.raises(ValueError, match=r"^The run's name .* cannot be that of a folder in runs/"):
            run_experiment(replace(tiny, name=name), dataset=paths)
        assert [path.name for path in tmp_path.rglob("*")] == ["here"]


class TestResuming:
    def test_a_finished_run_is_only_read(self, finished, paths):
        times = {path: path.stat().st_mtime_ns for path in finished.folder.iterdir()}
        assert resume_run(finished.folder) == finished
        assert {path: path.stat().st_mtime_ns for path in finished.folder.iterdir()} == times

    def test_not_a_run(self, tmp_path):
        with pytest.raises(ValueError, match=r"is not the folder of a run: it has no config\.json\.$"):
            resume_run(tmp_path)

    @pytest.fixture
    def stopped(self, tiny, paths, tmp_path) -> Path:
        """A run that lacks its end."""
        folder = run_experiment(tiny, tmp_path / "run", dataset=paths, device="cpu").folder
        (folder / "result.json").unlink()
        return folder

    def test_gives_the_same_result(self, stopped, paths, finished):
        again = resume_run(stopped, dataset=paths)
        assert again.record["scores"] == finished.record["scores"]
        assert rows(stopped) == rows(finished.folder)

    def test_stops_at_a_checkpoint_when_asked_to(self, tiny, paths, tmp_path, finished):
        folder = tmp_path / "run"
        with pytest.raises(Stopped, match="stopped after epoch 1; it can be resumed"):
            run_experiment(tiny, folder, dataset=paths, stop=lambda: True)
        assert not (folder / "result.json").exists()
        with pytest.raises(Stopped, match="after epoch 2"):
            resume_run(folder, dataset=paths, stop=lambda: True)
        last = resume_run(folder, dataset=paths, stop=lambda: True)  # after the last epoch there is nothing to stop
        assert last.record["scores"] == finished.record["scores"]

    def test_a_number_of_epochs_that_was_not_given_is_chosen_and_kept(self, tiny, paths, tmp_path):
        experiment = replace(tiny, training=replace(tiny.training, max_epochs=None))
        with pytest.raises(Stopped):
            run_experiment(experiment, tmp_path / "run", dataset=paths, stop=lambda: True)
        kept = json.loads((tmp_path / "run" / "config.json").read_text())["training"]["max_epochs"]
        assert kept == experiment.training.for_graphs(len(paths.split.train)).num_epochs == 200

    def test_a_run_that_once_shared_its_device_says_so(self, tiny, paths, tmp_path):
        with pytest.raises(Stopped):
            run_experiment(tiny, tmp_path / "run", dataset=paths, stop=lambda: True, runs_at_a_time=3)
        record = resume_run(tmp_path / "run", dataset=paths).record
        assert (record["runs_at_a_time"], record["peak_memory_mb"]) == (3, None)

    def test_the_commit_is_that_of_the_beginning(self, tiny, paths, tmp_path, monkeypatch):
        monkeypatch.setenv("CRAWL_COMMIT", "first")

        def commit_meanwhile() -> bool:
            monkeypatch.setenv("CRAWL_COMMIT", "second")
            return False

        result = run_experiment(tiny, tmp_path / "run", dataset=paths, stop=commit_meanwhile)
        assert result.record["commit"] == "first"

    def test_the_commits_of_a_run_that_was_resumed(self, tiny, paths, tmp_path, monkeypatch):
        monkeypatch.setenv("CRAWL_COMMIT", "first")
        with pytest.raises(Stopped):
            run_experiment(tiny, tmp_path / "run", dataset=paths, stop=lambda: True)
        shutil.copytree(tmp_path / "run", tmp_path / "same")
        assert resume_run(tmp_path / "same", dataset=paths).record["commit"] == "first"
        monkeypatch.setenv("CRAWL_COMMIT", "second")
        with pytest.raises(Stopped):
            resume_run(tmp_path / "run", dataset=paths, stop=lambda: True)
        assert resume_run(tmp_path / "run", dataset=paths).record["commit"] == "first, second"

    def test_a_checkpoint_of_an_older_version_has_no_commit(self, stopped, paths, finished):
        tensors, values = load_checkpoint(stopped / "last.safetensors")
        save_checkpoint(stopped / "last.safetensors", tensors, {k: v for k, v in values.items() if k != "commit"})
        assert resume_run(stopped, dataset=paths).record["commit"] == finished.record["commit"]

    def test_on_another_device(self, stopped, paths, finished):
        where = stopped / "where.json"
        assert strict(where.read_text()) == {"device": "cpu", "path": None, "root": None}
        where.write_text(where.read_text().replace("cpu", "cuda:9"))
        again = resume_run(stopped, device="cpu", dataset=paths)
        assert again.record["where"] == {"device": "cpu", "path": None, "root": None} == strict(where.read_text())
        assert again.record["scores"] == finished.record["scores"]

    def test_a_damaged_place(self, stopped, paths):
        (stopped / "where.json").write_text('{"device": 3}')
        with pytest.raises(ValueError, match=r"where\.json is damaged .*\(device .* not 3\): remove it"):
            resume_run(stopped, dataset=paths)

    def test_data_that_have_changed(self, stopped, paths):
        other = replace(paths, split=Split(torch.arange(6), torch.arange(6, 8), torch.arange(8, 10)))
        with pytest.raises(ValueError, match=r"^The data have changed since .* Start a new run\.$"):
            resume_run(stopped, dataset=other)

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("the nodes and edges", {"edge_index": lambda edges: edges.flip(0).roll(1, dims=1)}),
            ("the node features", {"x": lambda x: x + 1}),
            ("the node features", {"x": lambda _: None}),
            ("the targets", {"y": lambda y: y * 2}),
        ],
    )
    def test_data_that_have_changed_are_named(self, stopped, paths, name, change):
        before = {path: path.stat().st_mtime_ns for path in stopped.iterdir() if path.name != ".lock"}
        store = replace(paths.store, **{part: how(getattr(paths.store, part)) for part, how in change.items()})
        with pytest.raises(ValueError, match=f"was started: {name} have changed\\. Start a new run"):
            resume_run(stopped, dataset=replace(paths, store=store))
        assert {path: path.stat().st_mtime_ns for path in stopped.iterdir() if path.name != ".lock"} == before

    def test_the_same_data_from_elsewhere(self, stopped, paths, finished):
        store = replace(paths.store, x=paths.store.x.double(), edge_index=paths.store.edge_index.int())
        moved = replace(paths, name="moved", graph_names=None, store=store)
        assert resume_run(stopped, dataset=moved).record["scores"] == finished.record["scores"]

    def test_a_run_of_an_older_version(self, stopped, paths, finished):
        (stopped / "data.json").unlink()
        with pytest.warns(UserWarning, match=r"has no data\.json, as runs of older versions"):
            again = resume_run(stopped, dataset=paths)
        assert again.record["scores"] == finished.record["scores"]
        assert "data" not in load_checkpoint(stopped / "best.safetensors")[1]  # nobody knows whether it is true
        assert not (stopped / "data.json").exists()

    def test_stopped_before_there_was_a_checkpoint(self, stopped, paths):
        for name in ("data.json", "split.json", "last.safetensors"):
            (stopped / name).unlink()
        resume_run(stopped, dataset=paths)
        assert Fingerprint.from_dict(json.loads((stopped / "data.json").read_text())) == Fingerprint.of(paths)

    def test_the_scaling_is_that_of_the_weights(self, tiny, paths, tmp_path):
        """Even if nothing can be compared: the targets of a run without data.json may be others."""
        experiment = replace(tiny, training=replace(tiny.training, normalise_targets=True))
        folder = run_experiment(experiment, tmp_path / "run", dataset=paths).folder
        before = load_checkpoint(folder / "best.safetensors")[1]["scaling"]
        (folder / "result.json").unlink()
        (folder / "data.json").unlink()
        other = replace(paths, store=replace(paths.store, y=100 * paths.store.y))
        with pytest.warns(UserWarning, match="cannot be compared"):
            resume_run(folder, dataset=other)
        assert load_checkpoint(folder / "best.safetensors")[1]["scaling"] == before

    def test_a_damaged_fingerprint(self, stopped, paths, finished):
        for content in (b'{"task": ', b"\xff\xfe", b"[]", b"{}", b'{"hashes": 1, "columns": null}'):
            (stopped / "data.json").write_bytes(content)
            with pytest.raises(ValueError, match=r"/data\.json is damaged .*: remove it to resume without comparing"):
                resume_run(stopped, dataset=paths)

    def test_a_damaged_checkpoint(self, stopped, paths, finished):
        content = (stopped / "last.safetensors").read_bytes()
        (stopped / "last.safetensors").write_bytes(content[: len(content) // 2])
        with pytest.raises(ValueError, match=r"truncated or damaged\. Without that file, the run begins anew\.$"):
            resume_run(stopped, dataset=paths)
        (stopped / "last.safetensors").unlink()
        assert resume_run(stopped, dataset=paths).record["scores"] == finished.record["scores"]

    def test_a_damaged_split(self, stopped, paths, finished):
        for content in (b'{"train": [0,', b"\xff\xfe", b"[]"):
            (stopped / "split.json").write_bytes(content)
            with pytest.raises(ValueError, match=r"/split\.json is damaged .*: remove it to resume with the split of"):
                resume_run(stopped, dataset=paths)
        (stopped / "split.json").unlink()
        assert resume_run(stopped, dataset=paths).record["scores"] == finished.record["scores"]

    def test_a_checkpoint_of_another_architecture(self, stopped, paths, tiny, tmp_path):
        other = replace(tiny, model=replace(tiny.model, hidden_channels=4))
        folder = run_experiment(other, tmp_path / "other", dataset=paths).folder
        for name in ("last", "best"):
            (stopped / "last.safetensors").write_bytes((folder / f"{name}.safetensors").read_bytes())
            with pytest.raises(ValueError, match=r"/last\.safetensors: The checkpoint does not fit"):
                resume_run(stopped, dataset=paths)

    def test_a_damaged_configuration(self, stopped, paths):
        (stopped / "config.json").write_text('{"sed": 1}')
        with pytest.raises(ValueError, match="Did you mean seed"):
            resume_run(stopped, dataset=paths)


def test_the_commit_is_what_the_variable_says(monkeypatch):
    by_git = environment_record(torch.device("cpu"), 1.0)["commit"]
    monkeypatch.setenv("CRAWL_COMMIT", "of-the-copy")
    assert environment_record(torch.device("cpu"), 1.0)["commit"] == "of-the-copy" != by_git


def test_a_full_disk_leaves_the_last_good_checkpoint(tiny, paths, tmp_path, monkeypatch, finished):
    monkeypatch.setattr("crawl.runs.run._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    num_saves = 0

    def save(path, tensors, description):
        nonlocal num_saves
        num_saves += 1
        if num_saves == 3:
            monkeypatch.setattr(os, "fsync", full)
        save_checkpoint(path, tensors, description)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("crawl.runs.run.save_checkpoint", save)
    with pytest.raises(OSError, match="No space left"):
        run_experiment(tiny, tmp_path / "run", dataset=paths)
    monkeypatch.undo()
    assert len(load_checkpoint(tmp_path / "run/last.safetensors")[1]["history"]) == 2
    assert not list((tmp_path / "run").glob(".*.part"))
    assert resume_run(tmp_path / "run", dataset=paths).record["scores"] == finished.record["scores"]


def test_progress_is_shown_when_asked_for(tiny, paths, tmp_path, capsys):
    run_experiment(tiny, tmp_path / "quiet", dataset=paths, quiet=None)  # not a terminal
    assert capsys.readouterr().err == ""
    run_experiment(tiny, tmp_path / "loud", dataset=paths, quiet=False)


class TestGivenData:
    def test_are_recorded_as_given(self, finished):
        assert finished.record["config"]["data"] == {"name": "given"}
        assert finished.record["data"] == "paths"
        assert TrainedModel.load(finished.folder).experiment.data == GivenData()

    def test_must_be_given_again(self, tiny, paths, tmp_path):
        result = run_experiment(tiny, tmp_path / "run", dataset=paths)
        (result.folder / "result.json").unlink()
        with pytest.raises(ValueError, match=r"^This run was started in Python .* give the data set again"):
            resume_run(result.folder)
        assert resume_run(result.folder, dataset=paths).record["scores"] == result.record["scores"]

    def test_cannot_be_others_than_those_named(self, tiny, paths, tmp_path):
        named = replace(tiny, data=Csl(fold=2))
        with pytest.raises(ValueError, match=r"names 'csl', but another data set, 'paths', was given: leave out"):
            run_experiment(named, tmp_path / "run", dataset=paths)
        with pytest.raises(ValueError, match=r"names 'csl', but another data set, 'csl', was given: leave out"):
            run_experiment(named, tmp_path / "run", dataset=load_dataset(Csl(fold=1)))
        assert not (tmp_path / "run").exists()

    def test_that_were_read_by_the_same_settings_are_recorded_as_these(self, tiny, tmp_path):
        named = replace(tiny, data=Csl(fold=2))
        result = run_experiment(named, tmp_path / "run", dataset=load_dataset(named.data))
        assert result.record["config"]["data"] == {"name": "csl", "fold": 2, "laplacian": 0}

    def test_a_changed_copy_is_not_what_was_read(self):
        dataset = load_dataset(Csl())
        assert dataset.source == Csl()
        assert replace(dataset, name="mine").source is None
        assert csl().source is None


def test_a_run_with_a_setting_without_effect_leaves_no_folder(tiny, paths, tmp_path):
    chosen = replace(tiny, model=replace(tiny.model, precision="bf16"))
    with pytest.raises(ValueError, match=r"on the CPU cannot be changed by --model\.precision .*: leave it out"):
        run_experiment(chosen, tmp_path / "run", dataset=paths, device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_network_without_walks_is_evaluated_once(tiny, paths, tmp_path):
    gin = tiny.without_walks(Model(("gin",), 8, 1))
    result = run_experiment(gin, tmp_path / "run", dataset=paths)
    assert [len(score["evaluations"]) for score in result.record["scores"].values()] == [1, 1, 1]
    assert "coverage" not in result.record
    with pytest.raises(ValueError, match="gin does not walk: leave out num_steps"):
        TrainedModel.load(result.folder).predict(paths.store, num_steps=9)


def test_the_record_says_how_much_walks_see(finished, tiny, paths):
    walked = finished.record["coverage"]
    seed = derive_seed(derive_seed(tiny.seed, "evaluate", "val"), "evaluation", 0)
    graph = Graph.from_data(paths.store.batch(paths.split.val))
    walks = tiny.walk.sample(graph, seed=seed, graph_keys=graph_keys(paths.store)[paths.split.val])
    nodes, edges = (float(share.mean()) for share in walks.coverage(graph))
    assert walked == {"nodes": pytest.approx(nodes), "edges": pytest.approx(edges)}
    assert 0 < edges <= 1


def test_the_record_says_how_steps_ran(finished):
    how = finished.record["steps"]
    assert how == "captured" or how.startswith("eager: there is no NVIDIA GPU")


def test_the_model_is_built_once(tiny, paths, tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr("crawl.runs.run.build_model", lambda *given: built.append(1) or build_model(*given))
    run_experiment(tiny, tmp_path / "run", dataset=paths)
    assert built == [1]


def test_a_run_resumes_where_its_data_have_moved_to(tiny, tmp_path):
    pytest.importorskip("rdkit")
    rows = [f"{'C' * (i % 7 + 2)}O,{i % 7}.5" for i in range(20)]
    (tmp_path / "old.csv").write_text("\n".join(["smiles,y", *rows]))
    experiment = replace(tiny, data=Csv(targets=("y",)), walk=replace(tiny.walk, num_eval_steps=6))
    with pytest.raises(Stopped):
        run_experiment(experiment, tmp_path / "run", path=tmp_path / "old.csv", stop=lambda: True)
    assert strict((tmp_path / "run/where.json").read_text())["path"] == str(tmp_path / "old.csv")
    assert "old.csv" not in (tmp_path / "run/config.json").read_text()
    shutil.copytree(tmp_path / "run", tmp_path / "same")
    whole = resume_run(tmp_path / "same")
    (tmp_path / "old.csv").rename(tmp_path / "new.csv")
    with pytest.raises(ValueError, match=r"There is no file or folder .*old\.csv"):
        resume_run(tmp_path / "run")
    moved = resume_run(tmp_path / "run", path=tmp_path / "new.csv")
    assert moved.record["scores"] == whole.record["scores"]
    assert moved.record["where"]["path"] == str(tmp_path / "new.csv")
    assert moved.record["config"] == whole.record["config"]


@pytest.mark.parametrize("device", [b"cpu", torch.device("cpu")], ids=["bytes", "torch.device"])
def test_a_device_is_a_word(device, tmp_path):
    """The folder of a run keeps it as text."""
    with pytest.raises(ValueError, match=r"device must be a str, not .*'auto', 'cpu' or 'cuda'"):
        run_experiment(Experiment(), tmp_path / "run", device=device)
    assert not (tmp_path / "run").exists()
