from __future__ import annotations

import csv
import shutil

import pytest


def test_a_report(crawl, csl_run, tmp_path):
    done = crawl("report", csl_run, "-o", "report")
    assert done.code == 0
    assert "paper" not in done.out
    assert "written: report/tables.md, report/tables.csv" in done.err
    assert (tmp_path / "report/tables.md").read_text() == done.out
    header, _, row = done.out.splitlines()
    assert header == "| run | data | model | metric | validation | test | ± evaluations | best epoch | time | notes |"
    assert row.startswith(f"| {csl_run} | csl | CRaWl fold 0 | accuracy | ")
    (cells,) = csv.DictReader((tmp_path / "report/tables.csv").read_text().splitlines())
    assert cells["test"].endswith(" %")
    assert cells["best epoch"].endswith(" of 2")
    assert done.err.rstrip().endswith(f"{csl_run}/report.html")
    assert "<h2>Learning curves</h2>" in (csl_run / "report.html").read_text()


def test_unfinished_and_damaged_runs_say_so(crawl, csl_run, tmp_path):
    for name in ("done", "begun", "damaged"):
        shutil.copytree(csl_run, tmp_path / "runs" / name, ignore=shutil.ignore_patterns("report.html"))
    (tmp_path / "runs/begun/result.json").unlink()
    (tmp_path / "runs/damaged/result.json").write_text("{}")
    rows = {line.split()[1]: line for line in crawl("report", "runs", "-o", "-").out.splitlines()[2:]}
    assert not list((tmp_path / "runs").rglob("report.html"))
    assert rows["runs/begun"].endswith("unfinished: 2 epochs done |")
    assert "runs/damaged/result.json is damaged" in rows["runs/damaged"]
    assert rows["runs/done"].endswith(" s |  |")
    crawl("report", "runs")
    assert "This run is not finished" in (tmp_path / "runs/begun/report.html").read_text()
    assert "result.json is damaged" in (tmp_path / "runs/damaged/report.html").read_text()


def test_curves_of_several_runs(crawl, csl_run, tmp_path):
    pytest.importorskip("matplotlib")
    crawl("report", csl_run, "-o", "report")
    assert (tmp_path / "report/curves.png").read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_one_line(crawl, tmp_path):
    assert "There are no runs in nowhere" in crawl.error("report", "nowhere")
    assert "Say which runs to report" in crawl.error("report")


def test_the_old_command_says_where_it_went(crawl):
    assert "python -m reproduction TABLE" in crawl.error("reproduce", "zinc", "--jobs", "2")


def test_data_sets_are_listed_with_where_they_are(crawl, tmp_path, monkeypatch):
    monkeypatch.setenv("CRAWL_DATA", str(tmp_path))
    lines = {line.split()[0]: line for line in crawl("datasets").out.splitlines() if line.strip()}
    assert "to be downloaded" in lines["zinc"]
    assert "to be imported" in lines["counting_star"]
    assert "in the package" in lines["csl"]
    assert str(tmp_path) in lines["The"]
