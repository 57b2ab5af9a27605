from __future__ import annotations

import shutil

import numpy as np
import pytest

from reproduction import reproduce as module


def test_without_a_table_there_is_a_list(command):
    done = command()
    assert done.code == 0
    for name in ("zinc", "csl", "social", "counting", "ablation", "window", "walks", "runtime", "peptides", "mnist"):
        assert f"\n{name} " in f"\n{done.out}"


def test_rows_are_listed_with_what_is_finished(command, csl_run, tmp_path):
    for name in ("zinc/crawl/seed-1", "window/2/seed-0"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        shutil.copy(csl_run / "result.json", tmp_path / "runs" / name)
    done = command("window", "--list", "--out", "runs")
    assert done.code == 0
    listed = [" ".join(line.split()[:4]) for line in done.out.splitlines()[1:]]
    assert listed == ["0 0 of 3", "2 1 of 3", "4 0 of 3", "6 0 of 3", "8 1 of 3", "10 0 of 3"]
    some = command("window", "--list", "--rows", "4", "10").out
    assert [line.split()[0] for line in some.splitlines()[1:]] == ["4", "10"]
    wrong = command("window", "--list", "--rows", "4", "nope")
    assert (wrong.code, wrong.out) == (2, "")
    assert "The row of window" in wrong.err
    needed = command("walks", "--list", "--rows", "0.2").out
    assert [line.split()[0] for line in needed.splitlines()] == ["zinc:", "crawl", "walks:", "0.2"]
    assert command("walks", "--list", "--rows", "crawl").code == 2  # as without --list
    found = command("--list", "--rows", "reddit_binary").out
    assert [line.split()[0] for line in found.splitlines()] == [
        "social:",
        "reddit_binary",
        "social_nine:",
        "reddit_binary",
    ]
    everything = command("--list").out
    assert "\nsocial_nine: " in everything
    assert "\n  reddit_binary " in everything
    assert not (tmp_path / "runs/reproduce").exists()


def test_a_table_is_printed(command, monkeypatch):
    monkeypatch.setattr(module._Work, "_do", lambda work, run, _: None)
    done = command("csl", "window", "--out", "runs", "--seeds", "1")
    assert done.code == 0
    assert "| CSL, CRaWl | 100.00 % ± 0.00 % (± 0.00 %) | – |" in done.out
    assert "not run" in done.out
    assert "## ZINC: test mae by window size" in done.out


def test_flags_reach_the_function(command, monkeypatch):
    seen = {}

    def record(names, folder, **choices):
        seen.update(choices, names=names, folder=folder)
        return []

    monkeypatch.setattr(module, "reproduce", record)
    assert command("csl", "--jobs", "3", "--rows", "crawl", "gin", "--tidy", "--device", "cpu").code == 0
    assert seen["names"] == ("csl",)
    assert (seen["jobs"], seen["rows"], seen["tidy"], seen["minutes"]) == (3, ("crawl", "gin"), True, None)


def test_failures_are_in_the_exit_code(command, monkeypatch):
    def refuse(work, run, _):
        if run.place.startswith("zinc"):
            raise ValueError("no data")

    monkeypatch.setattr(module._Work, "_do", refuse)
    done = command("zinc", "ablation_zinc", "--seeds", "2")
    assert done.code == 2
    assert "| not run; no data |" in done.out
    assert done.err.endswith("python -m reproduction: error: 2 runs failed; the tables say why.\n")


def test_an_interrupt_says_how_to_go_on(command, monkeypatch):
    def interrupt(work, run, _):
        raise KeyboardInterrupt

    monkeypatch.setattr(module._Work, "_do", interrupt)
    done = command("zinc")
    assert done.code == 130
    assert done.err.endswith("python -m reproduction: interrupted; the same command resumes where it was stopped\n")


def test_mistakes_are_one_line(command):
    wanted = "must be a whole number from 1 to 2147483647, not 0."
    assert command.error("csl", "--seeds", "0") == f"--seeds {wanted}"
    assert command.error("csl", "--jobs", "0") == f"--jobs {wanted}"
    assert command.error("csl", "--minutes", "0") == "--minutes must be more than 0, not 0."
    assert command.error("csl", "--minutes=-1") == "--minutes must be more than 0, not -1."
    assert "Did you mean 'csl'?" in command.error("cls")
    assert "There are no runs in nowhere" in command.error("report", "nowhere")
    assert "Say which runs to report" in command.error("report")


def test_a_report(command, csl_run, tmp_path):
    done = command("report", csl_run, "-o", "report", "--collect")
    assert done.code == 0
    assert "| csl, crawl, csl |" in done.out
    assert (tmp_path / "report/tables.csv").is_file()
    assert "written: report/tables.md" in done.err
    assert command("report", csl_run, "-o", "-").out == done.out
    assert "--collect writes files" in command.error("report", csl_run, "-o", "-", "--collect")


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


def test_import_and_train(command, crawl, social, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("CRAWL_DATA", str(tmp_path / "root"))
    done = command("import", "reddit-binary", ".")
    assert done.code == 0
    assert "REDDIT-BINARY: 20 graphs in" in done.out
    assert "in the data root" in crawl("datasets", "list").out
    done = crawl("train", "reddit_binary", "--data.fold", "3", "--out", "run", *tiny)
    assert done.code == 0
    assert "REDDIT-BINARY: test accuracy" in done.out
    assert "fold 4" in done.out
    assert "There is no benchmark 'redit'" in command.error("import", "redit", ".")
