"""Rows of BREC: what is left to run is run, once, and resumes to the same result."""

from __future__ import annotations

import json
import re
from pathlib import Path

import networkx as nx
import pytest

from crawl.runs.folder import InUse, RunFolder
from reproduction import brec_runs
from reproduction.brec import Settings
from reproduction.brec_runs import Row, read_row, read_rows, run_rows

SMALL = Settings(hidden_channels=8, num_layers=1, num_steps=16, num_eval_steps=20, num_evaluations=2)
HEXAGON, TRIANGLES = nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))


@pytest.fixture(autouse=True)
def pairs(monkeypatch):
    monkeypatch.setattr(brec_runs, "load_pairs", lambda root: [(HEXAGON, TRIANGLES)] * 400)


@pytest.fixture
def tested(monkeypatch) -> list[tuple[str, int, int]]:
    """Which pairs are tested; each takes no time and is distinguished, except for odd ones."""
    seen = []

    class Quick:
        num_parameters = 5

        def __init__(self, network, pairs, settings, seed, device):
            self.row = (network, seed)

        def test(self, pair):
            seen.append((*self.row, pair))
            return {"pair": pair, "epochs": 2, "loss": 0.1, "t2": [50.0, 90.0 - 80 * (pair % 2)], "control": [1.0, 2.0]}

    monkeypatch.setattr(brec_runs, "Contest", Quick)
    return seen


def run(folder: Path, pairs, **how) -> dict[str, Row]:
    run_rows(folder, pairs, SMALL, **({"networks": ["crawl-8"], "num_seeds": 1, "device": "cpu"} | how))
    return {row.name: row for row in read_rows(folder)}


def test_three_pairs_resume_to_the_same_result(tmp_path):
    at_once = run(tmp_path / "a", [0, 3, 5])["crawl-8-seed-0"]
    run(tmp_path / "b", [3])
    resumed = run(tmp_path / "b", [0, 3, 5])["crawl-8-seed-0"]
    assert list(at_once.pairs) == [0, 3, 5]
    assert resumed.pairs == at_once.pairs
    assert at_once.pairs[0]["t2"] != at_once.pairs[3]["t2"]  # other relabellings, weights and walks
    assert (at_once.network, at_once.seed, at_once.settings) == ("crawl-8", 0, SMALL)
    assert at_once.num_parameters > 100
    assert at_once.made["wall_time_s"] > 0
    assert at_once.made["versions"]["torch"]


def test_threads_find_the_same(tmp_path):
    alone = run(tmp_path / "a", [0], networks=["crawl-8", "hybrid"], num_seeds=2)
    beside = run(tmp_path / "b", [0], networks=["crawl-8", "hybrid"], num_seeds=2, jobs=2)
    assert list(alone) == ["crawl-8-seed-0", "crawl-8-seed-1", "hybrid-seed-0", "hybrid-seed-1"]
    assert {name: row.pairs for name, row in alone.items()} == {name: row.pairs for name, row in beside.items()}
    assert {row.made["runs_at_a_time"] for row in beside.values()} == {2}


def test_only_what_is_left_is_run(tmp_path, tested):
    run(tmp_path, [1, 2])
    rows = run(tmp_path, [0, 1, 2], num_seeds=2)
    assert tested == [("crawl-8", 0, 1), ("crawl-8", 0, 2), ("crawl-8", 0, 0), *(("crawl-8", 1, i) for i in range(3))]
    assert [list(row.pairs) for row in rows.values()] == [[0, 1, 2], [0, 1, 2]]
    tested.clear()
    run(tmp_path, [0, 1, 2], num_seeds=2)
    assert tested == []


def test_all_networks_without_names(tmp_path, tested):
    with pytest.raises(ValueError, match=r"Walks of 16 steps .* crawl-32: take 32"):
        run(tmp_path, [0], networks=())
    assert tested == []
    run_rows(tmp_path, [0], Settings(num_evaluations=2), num_seeds=1, device="cpu")
    assert [row.name for row in read_rows(tmp_path)] == [
        f"{name}-seed-0" for name in ("crawl-8", "crawl-16", "crawl-32", "hybrid")
    ]
    with pytest.raises(ValueError, match=r"network.*'crawl-9'.*Did you mean 'crawl-8'"):
        run(tmp_path, [0], networks=["crawl-9"])


def test_what_counts_as_distinguished():
    record = {"pair": 0, "epochs": 1, "loss": 0.1}
    row = Row("crawl-8", 0, SMALL)
    row.pairs = {
        0: {**record, "t2": [70.0, 80.0], "control": [1.0, 1.0]},
        1: {**record, "t2": [80.0, 90.0], "control": [1.0, 73.0]},
        2: {**record, "t2": [80.0, 72.34], "control": [72.34, 1.0]},
    }
    assert (row.distinguished(0, [0, 1, 2, 3]), row.failed_controls(0, [0, 1, 2, 3])) == ([1], [2])
    assert (row.distinguished(-1, [0, 1, 2, 3]), row.failed_controls(-1, [0, 1, 2, 3])) == ([0], [1])
    assert row.distinguished(-1, [1, 2]) == []
    row.pairs[4] = {**record, "t2": [300.0], "control": [1.0]}  # decided
    assert (row.distinguished(1, [0, 4]), row.distinguished(-1, [0, 4]), row.failed_controls(1, [4])) == (
        [0, 4],
        [0, 4],
        [],
    )


def test_an_interrupt_keeps_what_was_found(tmp_path, tested, monkeypatch):
    make = brec_runs.Contest

    class Interrupted(make):
        def test(self, pair):
            if pair == 2:
                raise KeyboardInterrupt
            return super().test(pair)

    monkeypatch.setattr(brec_runs, "Contest", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, range(5))
    assert list(read_row(tmp_path / "crawl-8-seed-0.json").pairs) == [0, 1]
    monkeypatch.setattr(brec_runs, "Contest", make)
    assert list(run(tmp_path, range(5))["crawl-8-seed-0"].pairs) == list(range(5))
    assert len(tested) == 5


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_row_does_not_stop_the_others(tmp_path, tested, monkeypatch, jobs):
    make = brec_runs.Contest

    class Failing(make):
        def test(self, pair):
            if self.row[0] == "crawl-8" and pair == 1:
                raise ValueError("does not answer pair 1")
            return super().test(pair)

    monkeypatch.setattr(brec_runs, "Contest", Failing)
    with pytest.raises(ValueError, match="pair 1"):
        run(tmp_path, range(3), networks=["crawl-8", "hybrid"], jobs=jobs)
    assert [list(row.pairs) for row in read_rows(tmp_path)] == [[0], [0, 1, 2]]


def test_the_time_is_kept_and_added_up(tmp_path, tested):
    first = run(tmp_path, [0])["crawl-8-seed-0"]
    path = tmp_path / "crawl-8-seed-0.json"
    first.made["wall_time_s"], first.made["commit"] = 100.0, "before"
    first.write(tmp_path)
    second = run(tmp_path, [0, 1])["crawl-8-seed-0"]
    assert 100 <= second.made["wall_time_s"] < 110
    assert second.made["commit"].startswith("before, ")
    written = path.read_text()
    run(tmp_path, [0, 1])
    assert path.read_text() == written  # nothing was left


def test_threads_of_the_cpu_are_those_asked_for(tmp_path, tested):
    assert run(tmp_path / "a", [0], threads=3)["crawl-8-seed-0"].made["device"] == "cpu (3 threads)"
    assert run(tmp_path / "b", [0])["crawl-8-seed-0"].made["device"] == "cpu (1 threads)"  # as in all tests


def test_no_time_is_left(tmp_path, tested):
    assert run(tmp_path, range(5), minutes=1e-9) == {}
    assert tested == []


def test_other_settings_need_another_folder(tmp_path, tested):
    row = run(tmp_path, [0])["crawl-8-seed-0"]
    other = Settings(**{**vars(SMALL), "num_evaluations": 3})
    with pytest.raises(ValueError, match=r"num_evaluations=2, not 3: choose another folder"):
        run_rows(tmp_path, [0], other, networks=["crawl-8"], num_seeds=1, device="cpu")
    Row("crawl-8", 1, other, made=row.made).write(tmp_path)
    with pytest.raises(ValueError, match=r"crawl-8-seed-0 and crawl-8-seed-1 .* different settings: move one"):
        read_rows(tmp_path)


def test_two_processes_in_one_folder(tmp_path, tested):
    with RunFolder(tmp_path).locked(), pytest.raises(InUse, match=re.escape(str(tmp_path))):
        run(tmp_path, [0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.pop("seed"), "seed"),
        (lambda file: file.update(format="other"), "not a row of BREC"),
        (lambda file: file.update(network="gin"), "'gin'"),
        (lambda file: file["pairs"][0].update(t2=[1.0]), "pair 0 does not have 1 to 2 values"),
        (lambda file: file["pairs"][0].update(t2=[], control=[]), "pair 0 does not have 1 to 2 values"),
        (lambda file: file["pairs"][0].update(loss="low"), "loss"),
        (lambda file: file["settings"].update(num_layers=0), "num_layers"),
    ],
)
def test_damaged_files_are_named(tmp_path, tested, change, message):
    run(tmp_path, [0])
    path = tmp_path / "crawl-8-seed-0.json"
    file = json.loads(path.read_text())
    change(file)
    path.write_text(json.dumps(file))
    with pytest.raises(ValueError, match=rf"crawl-8-seed-0\.json is damaged.*{message}.*remove it"):
        run(tmp_path, [0])
