from __future__ import annotations

import shutil

import numpy as np
import pytest

from crawl.runs import reproduce as module


def test_without_a_table_there_is_a_list(crawl):
    done = crawl("reproduce")
    assert done.code == 0
    for name in ("zinc", "csl", "social", "counting", "ablation", "window", "walks", "runtime", "peptides", "mnist"):
        assert f"\n{name} " in f"\n{done.out}"


def test_rows_are_listed_with_what_is_finished(crawl, csl_run, tmp_path):
    for name in ("zinc/crawl/seed-1", "window/2/seed-0"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        shutil.copy(csl_run / "result.json", tmp_path / "runs" / name)
    done = crawl("reproduce", "window", "--list", "--out", "runs")
    assert done.code == 0
    listed = [" ".join(line.split()[:4]) for line in done.out.splitlines()[1:]]
    assert listed == ["0 0 of 3", "2 1 of 3", "4 0 of 3", "6 0 of 3", "8 1 of 3", "10 0 of 3"]
    some = crawl("reproduce", "window", "--list", "--rows", "4", "10").out
    assert [line.split()[0] for line in some.splitlines()[1:]] == ["4", "10"]
    wrong = crawl("reproduce", "window", "--list", "--rows", "4", "nope")
    assert (wrong.code, wrong.out) == (2, "")
    assert "The row of window" in wrong.err
    needed = crawl("reproduce", "walks", "--list", "--rows", "0.2").out
    assert [line.split()[0] for line in needed.splitlines()] == ["zinc:", "crawl", "walks:", "0.2"]
    assert crawl("reproduce", "walks", "--list", "--rows", "crawl").code == 2  # as without --list
    found = crawl("reproduce", "--list", "--rows", "reddit_binary").out
    assert [line.split()[0] for line in found.splitlines()] == [
        "social:",
        "reddit_binary",
        "social_nine:",
        "reddit_binary",
    ]
    everything = crawl("reproduce", "--list").out
    assert "\nsocial_nine: " in everything
    assert "\n  reddit_binary " in everything
    assert not (tmp_path / "runs/reproduce").exists()


def test_a_table_is_printed(crawl, monkeypatch):
    monkeypatch.setattr(module._Work, "do", lambda work, run: None)
    done = crawl("reproduce", "csl", "window", "--out", "runs", "--seeds", "1")
    assert done.code == 0
    assert "| CSL, CRaWl | 100.00 % ± 0.00 % (± 0.00 %) | – |" in done.out
    assert "not run" in done.out
    assert "## ZINC: test mae by window size" in done.out


def test_flags_reach_the_function(crawl, monkeypatch):
    seen = {}

    def record(names, folder, **choices):
        seen.update(choices, names=names, folder=folder)
        return []

    monkeypatch.setattr(module, "reproduce", record)
    assert crawl("reproduce", "csl", "--jobs", "3", "--rows", "crawl", "gin", "--tidy", "--device", "cpu").code == 0
    assert seen["names"] == ("csl",)
    assert (seen["jobs"], seen["rows"], seen["tidy"], seen["minutes"]) == (3, ("crawl", "gin"), True, None)


def test_failures_are_in_the_exit_code(crawl, monkeypatch):
    monkeypatch.setattr(module._Work, "do", lambda work, run: "no data" if run.place.startswith("zinc") else None)
    done = crawl("reproduce", "zinc", "ablation_zinc", "--seeds", "2")
    assert done.code == 2
    assert "| not run; no data |" in done.out
    assert done.err.endswith("crawl: error: 2 runs failed; the tables say why.\n")


def test_an_interrupt_says_how_to_go_on(crawl, monkeypatch):
    def interrupt(work, run):
        raise KeyboardInterrupt

    monkeypatch.setattr(module._Work, "do", interrupt)
    done = crawl("reproduce", "zinc")
    assert done.code == 130
    assert done.err.endswith("crawl: interrupted; the same command resumes where it was stopped\n")


def test_mistakes_are_one_line(crawl):
    wanted = "must be a whole number from 1 to 2147483647, not 0."
    assert crawl.error("reproduce", "csl", "--seeds", "0") == f"--seeds {wanted}"
    assert crawl.error("reproduce", "csl", "--jobs", "0") == f"--jobs {wanted}"
    assert crawl.error("reproduce", "csl", "--minutes", "0") == "--minutes must be more than 0, not 0."
    assert crawl.error("reproduce", "csl", "--minutes=-1") == "--minutes must be more than 0, not -1."
    assert "Did you mean 'csl'?" in crawl.error("reproduce", "cls")
    assert "There are no runs in nowhere" in crawl.error("report", "nowhere")
    assert "Say which runs to report" in crawl.error("report")


def test_a_report(crawl, csl_run, tmp_path):
    done = crawl("report", csl_run, "-o", "report", "--collect")
    assert done.code == 0
    assert "| csl, crawl, csl |" in done.out
    assert (tmp_path / "report/tables.csv").is_file()
    assert "written: report/tables.md" in done.err


def test_data_sets_are_listed_with_where_they_are(crawl, tmp_path, monkeypatch):
    monkeypatch.setenv("CRAWL_DATA", str(tmp_path))
    lines = {line.split()[0]: line for line in crawl("datasets").out.splitlines() if line.strip()}
    assert "to be downloaded" in lines["zinc"]
    assert "to be imported" in lines["counting_star"]
    assert "in the package" in lines["csl"]
    assert str(tmp_path) in lines["The"]


@pytest.fixture
def social(tmp_path, monkeypatch):
    from dataclasses import replace

    from crawl.data.benchmarks import BENCHMARKS, Statistics

    statistics = Statistics(num_graphs=(20,), mean_nodes=3, mean_edges=4)
    monkeypatch.setitem(BENCHMARKS, "reddit_binary", replace(BENCHMARKS["reddit_binary"], statistics=statistics))
    np.savez(
        tmp_path / "reddit-binary.npz",
        num_nodes=np.full(20, 3),
        num_edges=np.full(20, 2),
        edges=np.tile([[0, 1], [1, 2]], 20),
        y=np.arange(20) % 2,
        test_fold=np.arange(20) // 2,
    )


def test_import_and_train(crawl, social, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("CRAWL_DATA", str(tmp_path / "root"))
    done = crawl("datasets", "import", "reddit-binary", ".")
    assert done.code == 0
    assert "REDDIT-BINARY: 20 graphs in" in done.out
    assert "in the data root" in crawl("datasets", "list").out
    done = crawl("train", "reddit_binary", "--data.fold", "3", "--out", "run", *tiny)
    assert done.code == 0
    assert "REDDIT-BINARY: test accuracy" in done.out
    assert "fold 4" in done.out
    assert "There is no benchmark 'redit'" in crawl.error("datasets", "import", "redit", ".")
