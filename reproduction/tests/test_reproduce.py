from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crawl import Graph
from crawl.data import Dataset, GraphStore, Split, Task
from crawl.runs import Experiment, TrainedModel, run
from crawl.runs.build import read_by
from crawl.runs.folder import RunFolder
from crawl.runs.records import read_run
from crawl.runs.run import Stopped
from reproduction import reproduce as module
from reproduction.records import read_collected
from reproduction.report import find_runs, write_report
from reproduction.reproduce import choose_tables, reproduce
from reproduction.synthetic import synthetic
from reproduction.tables import TABLES
from tests.forks import Fork
from tests.runs.fake_runs import write_run


def small(experiment: Experiment) -> Experiment:
    """The same experiment, done in a fraction of a second."""
    has_walks = experiment.walk is not None
    return replace(
        experiment,
        walk=replace(experiment.walk, num_steps=5, num_eval_steps=5, window_size=4) if has_walks else None,
        model=replace(experiment.model, hidden_channels=8, num_layers=1, kernel_size=None),
        training=replace(experiment.training, max_epochs=2, batch_size=100),
        evaluation=replace(experiment.evaluation, num_val_repeats=1, num_test_repeats=2 if has_walks else 1),
    )


def cycles(num_graphs: int = 24) -> Dataset:
    """Cycles of three to five nodes with their length as the target."""
    sizes = 3 + torch.arange(num_graphs) % 3
    node_ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    nodes = [torch.arange(size) for size in sizes.tolist()]
    edges = [torch.stack([node, (node + 1) % len(node)]) for node in nodes]
    store = GraphStore(
        node_ptr=node_ptr,
        edge_ptr=torch.cat([node_ptr[:1], (2 * sizes).cumsum(0)]),
        edge_index=torch.cat([torch.cat([edge, edge.flip(0)], dim=1) for edge in edges], dim=1),
        y=sizes.float().unsqueeze(1),
    )
    split = Split(*torch.split(torch.arange(num_graphs), [num_graphs - 8, 4, 4]))
    return Dataset("ZINC", store, Task(kind="regression", num_outputs=1), split)


@pytest.fixture
def cycles_for_zinc(monkeypatch):
    monkeypatch.setattr(module, "load_dataset", lambda data, **_: read_by(data, cycles()))


@pytest.fixture(scope="module")
def csl_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first seed of CSL and of its baseline; only to be read."""
    folder = tmp_path_factory.mktemp("reproduce")
    reproduce("csl", folder, num_seeds=1, rows=("crawl", "gin"), device="cpu", change=small)
    return folder


class Clock:
    """A clock that shows the given times, one after the other, and then the last."""

    def __init__(self, *times: float) -> None:
        self.times = list(times)

    def time(self) -> float:
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]


def test_runs_all_folds_and_sums_them_up(csl_runs):
    (done,) = reproduce("csl", csl_runs, minutes=0)  # reads only
    crawl, laplacian, gin, _ = done.lines
    assert (crawl.num_finished, crawl.num_planned) == (5, 25)
    assert crawl.mean is not None
    assert "unfinished: 5 of 25 runs" in crawl.notes
    (note,) = (note for note in crawl.notes if "settings" in note)
    assert note.startswith("5 runs have other settings than planned (walk.num_steps=5, ")
    assert (laplacian.mean, laplacian.notes) == (None, ("not run",))
    assert (gin.mean, gin.num_finished) == (pytest.approx(0.1), 5)
    assert "| CSL, GIN | ≤ 10.00 % | 10.00 % | +0.00 % |" in str(done)
    record = read_run(csl_runs / "csl/crawl/seed-0-fold-3", "here")
    assert record.record["config"]["data"]["fold"] == 3
    assert len(record.curve) == record.epochs == 2


def test_finished_runs_are_read_and_stopped_ones_go_on(tmp_path, csl_runs, capsys, monkeypatch):
    arguments = {"num_seeds": 1, "rows": ("crawl",), "device": "cpu", "change": small}
    reproduce("csl", tmp_path, minutes=0, **arguments)
    assert not (tmp_path / "csl").exists()
    with monkeypatch.context() as patch:
        patch.setattr(module, "time", Clock(0.0, 0.0, 3600.0))  # time is up after the first epoch
        (stopped,) = reproduce("csl", tmp_path, minutes=1, **arguments)
    assert stopped.lines[0].notes == ("unfinished: 0 of 25 runs, 1 begun (epoch 1)",)
    (done,) = reproduce("csl", tmp_path, tidy=True, **arguments)
    assert done.lines[0].num_finished == 5
    for fold in range(5):
        name = f"csl/crawl/seed-0-fold-{fold}/result.json"
        ours, theirs = (json.loads((folder / name).read_text())["scores"] for folder in (tmp_path, csl_runs))
        assert ours == theirs
    kept = {path.name for path in (tmp_path / "csl/crawl/seed-0-fold-0").iterdir()} - {".lock"}
    assert kept == {"config.json", "where.json", "data.json", "split.json", "metrics.jsonl", "result.json"}
    capsys.readouterr()
    reproduce("csl", tmp_path, **arguments)
    assert capsys.readouterr().err == ""  # there is nothing to do


def test_finished_runs_can_be_tidied_later(tmp_path, csl_runs):
    shutil.copytree(csl_runs / "csl/crawl", tmp_path / "csl/crawl")
    place = tmp_path / "csl/crawl/seed-0-fold-1"
    assert (place / "last.safetensors").is_file()
    reproduce("csl", tmp_path, rows=("crawl",), num_seeds=1, device="cpu", tidy=True, change=small)
    assert {path.name for path in place.iterdir()} - {".lock"} == {
        *("config.json", "where.json", "data.json", "split.json", "metrics.jsonl", "result.json"),
    }


def test_a_run_with_a_damaged_result_is_run_again(tmp_path, csl_runs, capsys):
    arguments = {"num_seeds": 1, "rows": ("crawl",), "device": "cpu", "change": small}
    shutil.copytree(csl_runs / "csl/crawl", tmp_path / "csl/crawl")
    damaged = tmp_path / "csl/crawl/seed-0-fold-2/result.json"
    damaged.write_text(damaged.read_text()[:100])
    (read_only,) = reproduce("csl", tmp_path, minutes=0)
    assert read_only.lines[0].num_finished == 4
    assert f"{damaged} is damaged" in read_only.lines[0].notes[1]
    reproduce("csl", tmp_path, tidy=True, minutes=0, **arguments)
    assert (damaged.parent / "last.safetensors").is_file()  # it is needed to resume
    (done,) = reproduce("csl", tmp_path, **arguments)
    assert "csl/crawl/seed-0-fold-2: done" in capsys.readouterr().err
    assert done.lines[0].num_finished == 5
    assert "damaged" not in str(done)
    ours, theirs = (
        json.loads((folder / "csl/crawl/seed-0-fold-2/result.json").read_text()) for folder in (tmp_path, csl_runs)
    )
    assert ours["scores"] == theirs["scores"]


def test_a_damaged_configuration_is_named(tmp_path, cycles_for_zinc):
    (tmp_path / "zinc/crawl/seed-0").mkdir(parents=True)
    (tmp_path / "zinc/crawl/seed-0/config.json").write_text("{")
    (done,) = reproduce("zinc", tmp_path, num_seeds=1, device="cpu", change=small)
    assert "seed-0/config.json is damaged" in done.lines[0].notes[-1]
    assert done.lines[0].notes[-1].endswith("remove the folder and run it again.")


def scores(folder: Path, place: str) -> Any:
    return json.loads((folder / place / "result.json").read_text())["scores"]


FOLDS = [f"csl/crawl/seed-0-fold-{fold}" for fold in range(5)]


def test_several_threads_do_the_same(tmp_path, csl_runs):
    (done,) = reproduce("csl", tmp_path, jobs=2, num_seeds=1, rows=("crawl",), device="cpu", change=small)
    assert done.lines[0].num_finished == 5
    assert [scores(tmp_path, place) for place in FOLDS] == [scores(csl_runs, place) for place in FOLDS]
    for folder, number in ((tmp_path, 2), (csl_runs, 1)):
        assert json.loads((folder / FOLDS[0] / "result.json").read_text())["runs_at_a_time"] == number


def small_csl_runs(folder: Path) -> None:
    run.write_run_page = lambda _: None  # it would take longer than the runs
    reproduce("csl", folder, num_seeds=1, rows=("crawl",), device="cpu", change=small)


def test_several_processes_share_the_work(tmp_path, csl_runs):
    processes = [Fork(small_csl_runs, tmp_path) for _ in range(2)]
    said = "".join(process.communicate(timeout=120)[1] for process in processes)
    assert [process.returncode for process in processes] == [0, 0], said
    assert all(f"{place}: done" in said for place in FOLDS), said
    assert [scores(tmp_path, place) for place in FOLDS] == [scores(csl_runs, place) for place in FOLDS]


def test_a_run_that_another_process_is_at_is_left(tmp_path, csl_runs, capsys):
    arguments = {"num_seeds": 1, "rows": ("crawl",), "device": "cpu", "change": small}
    shutil.copytree(csl_runs / "csl", tmp_path / "csl")
    for place in FOLDS[:2]:
        (tmp_path / place / "result.json").unlink()
    with RunFolder(tmp_path / FOLDS[0]).locked():
        (done,) = reproduce("csl", tmp_path, **arguments)
    assert (done.lines[0].num_finished, done.problems) == (4, {})
    assert f"{FOLDS[0]}: left for now: Another process is training in" in capsys.readouterr().err
    (done,) = reproduce("csl", tmp_path, **arguments)
    assert done.lines[0].num_finished == 5


def test_an_evaluation_waits_for_its_training_elsewhere(tmp_path, cycles_for_zinc, capsys):
    arguments = {"num_seeds": 1, "rows": ("0.2",), "device": "cpu", "change": small}
    reproduce("zinc", tmp_path, num_seeds=1, device="cpu", change=small)
    with RunFolder(tmp_path / "zinc/crawl/seed-0").locked():
        _, walks = reproduce("walks", tmp_path, **arguments)
    assert (walks.lines[0].num_finished, walks.problems) == (0, {})
    assert "walks/0.2/seed-0: left for now: Another process is training in" in capsys.readouterr().err
    _, walks = reproduce("walks", tmp_path, **arguments)
    assert walks.lines[0].num_finished == 1


def test_an_interrupt_stops_threads_at_the_end_of_their_epoch(tmp_path, monkeypatch, capsys, interruptible):
    begun = []

    def run(experiment, place, *, stop, **_):
        begun.append(place)
        if len(begun) == 2:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        while not stop():
            time.sleep(0.01)
        raise Stopped("at epoch 1")

    monkeypatch.setattr(module, "run_experiment", run)
    with pytest.raises(KeyboardInterrupt):
        reproduce("csl", tmp_path, jobs=2, num_seeds=1, rows=("crawl",), device="cpu")
    said = capsys.readouterr().err
    assert "stopping at the end of the epoch; Ctrl-C again stops at once" in said
    assert said.count("left for now: at epoch 1") == len(begun) == 2  # nothing else was begun


def fail(monkeypatch, *problems: str) -> list[tuple[str, int]]:
    """Let runs fail with these problems, the later ones succeed; what is begun, and with how many at a time."""
    begun: list[tuple[str, int]] = []
    left = list(problems)

    def do(work, run, runs_at_a_time):
        begun.append((run.place, runs_at_a_time))
        if left:
            raise RuntimeError(left.pop(0))

    monkeypatch.setattr(module._Work, "_do", do)
    return begun


def test_nothing_more_is_run_on_a_gpu_that_is_broken(tmp_path, monkeypatch, capsys):
    begun = fail(monkeypatch, "CUDA error: unknown")
    (done,) = reproduce("zinc", tmp_path, device="cpu")
    assert begun == [("zinc/crawl/seed-0", 1)]
    assert done.problems == {"zinc/crawl/seed-0": "CUDA error: unknown"}
    assert capsys.readouterr().err.endswith("start the same command again to resume\n")


def test_runs_that_found_no_memory_beside_others_are_tried_alone(tmp_path, monkeypatch):
    begun = fail(monkeypatch, "CUDA out of memory. Tried to allocate 9.37 GiB.", "it is broken")
    (done,) = reproduce("zinc", tmp_path, jobs=3, device="cpu")
    crowded = next(place for place, _ in begun if place not in done.problems and (place, 1) in begun)
    assert [place for place, number in begun if number == 1] == [crowded]
    assert sorted(number for _, number in begun) == [1, 3, 3, 3, 3, 3]
    assert list(done.problems.values()) == ["it is broken"]


def test_what_is_run_for_its_time_runs_alone(tmp_path, monkeypatch):
    begun = fail(monkeypatch)
    reproduce(["runtime", "zinc"], tmp_path, jobs=2, num_seeds=2, device="cpu")
    assert sorted(begun[:2]) == [("zinc/crawl/seed-0", 2), ("zinc/crawl/seed-1", 2)]
    assert ("runtime/zinc/seed-0", 1) in begun
    assert ("runtime/molpcba-synthetic/seed-0", 1) in begun


def test_random_graphs_of_the_size_of_a_benchmark(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "synthetic", lambda benchmark: synthetic(benchmark, 12))
    (done,) = reproduce("runtime", tmp_path, rows=("peptides_struct-synthetic",), device="cpu", change=small)
    line = next(line for line in done.lines if line.num_finished)
    assert line.label == "PEPTIDES-STRUCT, random graphs of its size"
    assert "data: PEPTIDES-STRUCT (synthetic)" in line.notes
    assert line.mean > 0


def test_the_data_root_is_not_in_the_record(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "load_dataset", lambda data, root: asked.append(root) or read_by(data, cycles()))
    reproduce("zinc", tmp_path, root=tmp_path / "data", num_seeds=1, device="cpu", change=small)
    assert asked == [str((tmp_path / "data").resolve())]
    place = tmp_path / "zinc/crawl/seed-0"
    assert json.loads((place / "config.json").read_text())["data"] == {"name": "zinc"}
    assert json.loads((place / "where.json").read_text())["root"] == str((tmp_path / "data").resolve())


def test_runs_that_fail_do_not_stop_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CRAWL_DATA", str(tmp_path / "nowhere"))

    def load(data, root):
        if data.name == "counting_star":
            raise ValueError("Counting, star is not there.")
        return read_by(data, cycles())

    monkeypatch.setattr(module, "load_dataset", load)
    (done,) = reproduce("counting", tmp_path, num_seeds=1, device="cpu", change=small)
    assert [line.num_finished for line in done.lines] == [1, 1, 0, 1]
    assert done.lines[2].notes == ("not run", "Counting, star is not there.")
    assert "counting/star/seed-0: Counting, star is not there." in capsys.readouterr().err


def test_a_run_is_resumed_where_the_command_says(tmp_path, cycles_for_zinc):
    place = tmp_path / "zinc/crawl/seed-0"
    reproduce("zinc", tmp_path, num_seeds=1, device="cpu", change=small)
    (place / "result.json").unlink()
    where = (place / "where.json").read_text()
    (place / "where.json").write_text(where.replace('"device": "cpu"', '"device": "cuda:9"'))
    (done,) = reproduce("zinc", tmp_path, num_seeds=1, device="cpu", change=small)
    assert (done.lines[0].num_finished, done.problems) == (1, {})


def test_a_run_with_other_settings_is_not_resumed(tmp_path, cycles_for_zinc):
    reproduce("zinc", tmp_path, num_seeds=1, device="cpu", change=small)
    (tmp_path / "zinc/crawl/seed-0/result.json").unlink()
    (done,) = reproduce("zinc", tmp_path, num_seeds=1, device="cpu", change=lambda experiment: experiment)
    assert "other settings: choose another folder" in done.lines[0].notes[-1]


@pytest.mark.parametrize("name", ["social", "social_nine"])
def test_social_graphs_with_and_without_validation(tmp_path, monkeypatch, name):
    def load(data, root):
        dataset = cycles(30)
        ids = torch.arange(30)
        is_test, is_val = ids % 10 == data.fold, (ids % 10 == (data.fold + 1) % 10) & data.has_validation
        split = Split(*(mask.nonzero().flatten() for mask in (~is_test & ~is_val, is_val, is_test)))
        task = Task(kind="multiclass", num_outputs=3, metric="accuracy")
        return read_by(data, replace(dataset, store=replace(dataset.store, y=ids % 3), task=task, split=split))

    monkeypatch.setattr(module, "load_dataset", load)
    (done,) = reproduce(name, tmp_path, rows=("imdb_multi",), device="cpu", change=small)
    by_test, own = done.lines[:2]
    assert by_test.num_finished == own.num_finished == 10
    assert by_test.mean >= own.mean - 0.2  # one evaluation against the mean of two
    assert own.selection == ("epoch chosen by validation" if name == "social" else "last epoch")
    assert "chosen with the test data" in str(done)
    assert done.lines[2].label == "REDDIT-BINARY"


def test_fewer_walks_with_the_trained_models(tmp_path, cycles_for_zinc):
    zinc, walks = reproduce("walks", tmp_path, num_seeds=2, device="cpu", tidy=True, change=small)
    assert (tmp_path / "zinc/crawl/seed-0/best.safetensors").is_file()
    assert (zinc.table.name, zinc.lines[0].num_finished) == ("zinc", 2)
    assert [line.num_finished for line in walks.lines] == [2] * 5
    assert [line.x for line in walks.lines] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert len({line.mean for line in walks.lines}) == 5
    record = json.loads((tmp_path / "walks/0.2/seed-1/result.json").read_text())
    assert (record["eval_start_share"], record["seed"]) == (0.2, 1)
    trained = json.loads((tmp_path / "zinc/crawl/seed-1/result.json").read_text())
    circumstances = ("wall_time_s", "runs_at_a_time", "peak_memory_mb", "device", "commit", "versions")
    assert record["trained"] == {key: trained[key] for key in circumstances}
    assert 0 < record["wall_time_s"] != trained["wall_time_s"]
    written = write_report([tmp_path], tmp_path / "report")
    if len(written) > 2:  # matplotlib is installed
        assert (tmp_path / "report/walks.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "report/curves-zinc.png").is_file()


def test_fewer_walks_are_evaluated_where_the_command_says(tmp_path, cycles_for_zinc, monkeypatch):
    reproduce("zinc", tmp_path, num_seeds=1, device="cpu", change=small)
    monkeypatch.setenv("CRAWL_COMMIT", "later")
    zinc, walks = reproduce("walks", tmp_path, num_seeds=1, rows=("0.2",), device="meta")
    assert zinc.problems == {}
    assert list(walks.problems) == ["walks/0.2/seed-0"]
    reproduce("walks", tmp_path, num_seeds=1, rows=("0.2",), device="cpu")
    record = json.loads((tmp_path / "walks/0.2/seed-0/result.json").read_text())
    assert record["device"].startswith("cpu")
    assert record["commit"] == "later" != record["trained"]["commit"]


def test_a_model_that_was_trained_again_is_evaluated_again(tmp_path, cycles_for_zinc):
    def other(experiment):
        return replace(small(experiment), training=replace(small(experiment).training, lr=0.1))

    def both():
        paths = [tmp_path / f"walks/0.2/seed-{seed}/result.json" for seed in (0, 1)]
        return [json.loads(path.read_text())["scores"] for path in paths]

    reproduce("walks", tmp_path, num_seeds=2, rows=("0.2",), device="cpu", change=small)
    before = both()
    written = (tmp_path / "walks/0.2/seed-1/result.json").stat().st_mtime_ns
    shutil.rmtree(tmp_path / "zinc/crawl/seed-0")
    reproduce("walks", tmp_path, num_seeds=2, rows=("0.2",), device="cpu", change=other)
    after = both()
    assert (after[0] != before[0], after[1] == before[1]) == (True, True)
    assert (tmp_path / "walks/0.2/seed-1/result.json").stat().st_mtime_ns == written, "it was not evaluated again"


def test_fewer_walks_in_evaluation(tmp_path, cycles_for_zinc):
    reproduce("zinc", tmp_path, num_seeds=1, device="cpu", change=small)
    batch = cycles().store.batch([0, 1, 2])
    graph = Graph.from_data(batch)
    whole, fewer = (TrainedModel.load(tmp_path / "zinc/crawl/seed-0", eval_start_share=p).model for p in (1.0, 0.3))
    assert len(whole.sample_walks(graph, seed=3)) == graph.num_nodes
    assert 0 < len(fewer.sample_walks(graph, seed=3)) < graph.num_nodes
    with torch.no_grad():
        assert not torch.equal(fewer(batch, seed=3), whole(batch, seed=3))


def test_small_files_give_the_same_report(tmp_path, csl_runs):
    write_report([csl_runs], tmp_path / "results", collect=True)
    collected = list((tmp_path / "results").glob("*.json"))
    assert [path.name for path in collected] == ["csl.json"]  # not those of tables that only share rows with it
    assert collected[0].stat().st_size < 50_000
    name, runs = read_collected(tmp_path / "results/csl.json")
    assert (name, len(runs)) == ("csl", 10)
    place = "csl/crawl/seed-0-fold-1"
    assert runs[place].curve[-1]["loss"] == pytest.approx(read_run(csl_runs / place, place).curve[-1]["loss"], rel=1e-4)
    write_report([csl_runs], tmp_path / "a")
    write_report(collected, tmp_path / "b")
    for file in ("tables.md", "tables.csv"):
        assert (tmp_path / "a" / file).read_text() == (tmp_path / "b" / file).read_text()
    text = (tmp_path / "a/tables.md").read_text()
    assert "## CSL: test accuracy, 5 folds" in text
    assert "10 finished runs" in text


def test_what_is_recorded_is_not_run_again(tmp_path, csl_runs, capsys, monkeypatch):
    write_report([csl_runs], tmp_path / "results", collect=True)
    how = {"num_seeds": 1, "rows": ("crawl",), "device": "cpu", "records": tmp_path / "results"}
    (read,) = reproduce("csl", tmp_path / "runs", change=small, **how)
    assert (read.lines[0].num_finished, capsys.readouterr().err) == (5, "")
    assert str(read) == str(reproduce("csl", csl_runs, minutes=0)[0])

    shorter = lambda planned: replace(small(planned), training=replace(small(planned).training, max_epochs=1))  # noqa: E731
    begun: list[str] = []
    monkeypatch.setattr(module._Work, "_do", lambda work, run, at_a_time: begun.append(run.place))
    reproduce("csl", tmp_path / "runs", change=shorter, **how)
    assert begun == [f"csl/crawl/seed-0-fold-{fold}" for fold in range(5)]  # the record has other settings
    with pytest.raises(ValueError, match=r"no small files of tables in .*runs.*such as results"):
        reproduce("csl", tmp_path, change=small, **(how | {"records": tmp_path / "runs"}))


def test_what_a_recorded_evaluation_needs_is_not_trained(tmp_path, cycles_for_zinc, monkeypatch):
    two_layers = lambda planned: replace(small(planned), model=replace(small(planned).model, num_layers=2))  # noqa: E731
    how = {"num_seeds": 1, "device": "cpu", "change": two_layers}
    reproduce("walks", tmp_path / "runs", **how)
    write_report([tmp_path / "runs"], tmp_path / "results", collect=True)
    begun: list[str] = []
    monkeypatch.setattr(module._Work, "_do", lambda work, run, at_a_time: begun.append(run.place))
    reproduce("walks", tmp_path / "empty", records=tmp_path / "results", **how)
    assert begun == []
    (tmp_path / "results/walks.json").unlink()  # evaluations need weights, and no record has any
    reproduce("walks", tmp_path / "empty", records=tmp_path / "results", **how)
    assert begun[0] == "zinc/crawl/seed-0"
    assert len(begun) > 1


def test_other_runs_have_a_table_of_their_own(tmp_path, csl_runs):
    run = write_run(tmp_path / "mine/run", Experiment(name="tiny"), 0.1)
    ((table, runs),) = find_runs([run])
    assert (table.name, len(runs)) == ("runs", 1)
    write_report([run, csl_runs], tmp_path)
    assert "tiny, crawl, run" in (tmp_path / "tables.md").read_text()
    with pytest.raises(ValueError, match="There are no runs in"):
        find_runs([tmp_path / "missing"])
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match=r"other\.json .*it does not hold the results of a table"):
        find_runs([tmp_path / "other.json"])


def test_tables_are_found():
    assert [table.name for table in choose_tables(("walks", "ablation"))] == [
        *("zinc", "walks", "ablation_csl", "ablation_zinc")
    ]
    with pytest.raises(ValueError, match="Did you mean 'zinc'"):
        choose_tables("zink")
    assert set(TABLES) >= {"zinc", "csl", "social", "counting", "window", "walks", "runtime", "peptides", "mnist"}


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """The places of the runs that would be done."""
    places: list[str] = []
    monkeypatch.setattr(module._Work, "_do", lambda work, run, _: places.append(run.place))
    return places


@pytest.mark.parametrize(
    ("tables", "rows", "places"),
    [
        ("walks", ("0.2", "1.0"), {"zinc/crawl/seed-0", "walks/0.2/seed-0", "walks/1.0/seed-0"}),
        (("csl", "zinc"), ("gin",), {f"csl/gin/seed-0-fold-{fold}" for fold in range(5)}),
        (("window", "zinc"), ("8", "0"), {"zinc/crawl/seed-0", "ablation_zinc/none-nb/seed-0"}),
        (("counting", "walks"), ("star",), {"counting/star/seed-0"}),
        ("counting_together", ("star", "cycle4"), {"counting_together/all/seed-0"}),
        ("ablation_zinc", ("both-nb",), {"zinc/crawl/seed-0"}),
        ("baselines", ("zinc-gin",), {"baselines/zinc-gin/seed-0"}),
    ],
)
def test_rows_are_chosen_by_name(tmp_path, asked, tables, rows, places):
    reproduce(tables, tmp_path, num_seeds=1, rows=rows, device="cpu")
    assert set(asked) == places


def test_rows_that_are_in_no_table_asked_for():
    with pytest.raises(ValueError, match="The row of zinc must be one of crawl, not 'gin'"):
        reproduce("zinc", rows=("gin",))
    with pytest.raises(ValueError, match=r"The row of zinc or walks must be one of crawl, 0\.2, .*, not '0\.3'"):
        reproduce(("zinc", "walks"), rows=("0.3",))


@pytest.mark.parametrize("name", TABLES)
def test_names_of_rows_are_unique(name):
    rows = TABLES[name]().rows
    assert len({row.name for row in rows}) == len(rows)


def test_needs_none_of_the_packages_for_data_and_commands():
    blocked = ("tyro", "rdkit", "ogb", "skimage", "matplotlib", "tensorboard")
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked}))\n"
    code += "from reproduction.reproduce import reproduce; from reproduction.report import write_report\n"
    code += "reproduce('csl', minutes=0)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
