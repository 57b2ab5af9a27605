from __future__ import annotations

import hashlib
import shutil
from dataclasses import fields

import networkx as nx
import numpy as np
import pytest

from reproduction import reproduce as module
from reproduction.brec import Settings
from reproduction.commands.brec import Brec


def test_without_a_table_there_is_a_list(command):
    done = command()
    assert done.code == 0
    for name in (
        "zinc",
        "csl",
        "social",
        "counting",
        "ablation",
        "window",
        "walks",
        "runtime",
        "peptides",
        "mnist",
        "brec",
    ):
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
        "social_hybrid:",
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
    assert "fold 3" in done.out
    assert "There is no benchmark 'redit'" in command.error("import", "redit", ".")


def test_brec(command, tmp_path, monkeypatch):
    graphs = (nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)))
    content = b"".join(nx.to_graph6_bytes(graph, header=False) for graph in graphs * 400)
    (tmp_path / "brec.g6").write_bytes(content)
    monkeypatch.setenv("CRAWL_DATA", str(tmp_path / "root"))
    small = ("--hidden-channels", "8", "--num-steps", "16", "--num-eval-steps", "20", "--num-evaluations", "2")
    how = ("brec", "crawl-8", "--seeds", "1", "--num-layers", "1", *small, "--device", "cpu", "--out", "out")
    assert "python -m reproduction import brec PATH" in command.error(*how)
    assert "get the file again" in command.error("import", "brec", ".")
    monkeypatch.setattr("reproduction.brec._SHA256", hashlib.sha256(content).hexdigest())
    assert f"BREC: 400 pairs in {tmp_path}/root/brec.g6" in command("import", "BREC", ".").out
    done = command(*how, "--pairs", "1", "60-61")
    assert done.code == 0
    assert "| CRaWl, s=8, seed 0 | 1 / 1 | 2 / 2 | – |" in done.out
    assert "crawl-8-seed-0: 3 of 3 pairs tested, 3 distinguished" in done.err
    assert "written: out/brec.md" in done.err
    assert {path.name for path in (tmp_path / "out").glob("[!.]*")} >= {"crawl-8-seed-0.json", "brec.md", "brec.png"}
    assert command("brec", "--report", "--out", "out").out == done.out
    again = command(*how, "--pairs", "1", "60-61")
    assert (again.out, "tested" in again.err) == (done.out, False)


def test_mistakes_about_brec_are_one_line(command):
    assert "--seeds must be a whole number from 1" in command.error("brec", "--seeds", "0")
    assert "not 'crawl-9'" in command.error("brec", "crawl-9")
    assert "from 0 to 399, such as 0-59, not '400'" in command.error("brec", "--pairs", "400")
    assert "num_evaluations" in command.error("brec", "--num-evaluations", "0")
    assert "--minutes must be more than 0" in command.error("brec", "--minutes", "0")
    for given in (("crawl-8",), ("--pairs", "cfi")):
        assert "leave out the networks and --pairs" in command.error("brec", *given, "--report")
    assert "There are no rows of BREC in nowhere" in command.error("brec", "--report", "--out", "nowhere")


def test_the_defaults_of_brec_are_those_in_python():
    assert all(getattr(Brec, field.name) == field.default for field in fields(Settings))


@pytest.mark.parametrize("words", [(), ("brec",), ("report",), ("import",)], ids=str)
def test_help_says_no_default_where_nothing_is_given(command, words):
    text = " ".join(command(*words, "--help").out.replace("│", " ").split())
    assert "usage: python -m reproduction" in text
    for word in ("{None}", "default: None", "default: )", "default: False"):
        assert word not in text


def test_several_processes_are_refused(command, monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    for words in (("csl",), ("links",), ("import", "csl", "folder")):
        done = command(*words)
        assert (done.code, done.out) == (2, "")
        assert "not 2" in done.err
        assert "torchrun" in done.err
