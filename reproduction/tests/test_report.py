from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from crawl.runs import Experiment
from crawl.runs import curves as drawing
from crawl.runs.records import RunRecord
from reproduction import report
from reproduction.plan import PlannedRun
from reproduction.records import read_collected
from reproduction.report import find_runs, write_report
from reproduction.tables import TABLES
from tests.runs.fake_runs import write_run


def planned(place: str) -> PlannedRun:
    """The run of a table that has this place."""
    rows = (row for make in TABLES.values() for row in make().rows)
    return next(run for row in rows for run in row.runs() if run.place == place)


def write_planned(root: Path, place: str, *evaluations: float) -> Path:
    return write_run(root / place, planned(place).experiment, *evaluations)


def places(found: Iterable[tuple[object, dict[str, RunRecord]]]) -> list[list[str]]:
    return [list(runs) for _, runs in found]


class TestSeveralPaths:
    def test_collects_the_runs_of_all(self, tmp_path):
        write_planned(tmp_path / "a", "zinc/crawl/seed-0", 0.1)
        write_planned(tmp_path / "b", "zinc/crawl/seed-1", 0.2)
        write_planned(tmp_path / "c", "zinc/crawl/seed-2", 0.3)
        write_report([tmp_path / "c"], tmp_path / "small", collect=True)
        out = tmp_path / "report"
        written = write_report([tmp_path / "a", tmp_path / "b", tmp_path / "small/zinc.json"], out, collect=True)
        assert written[-1] == out / "zinc.json"
        _, runs = read_collected(out / "zinc.json")
        assert list(runs) == [f"zinc/crawl/seed-{i}" for i in range(3)]
        text = (out / "tables.md").read_text()
        assert "| 0.2000 |" in text
        assert "3 of 5" in text
        write_report([out / "zinc.json"], tmp_path / "again")
        assert (tmp_path / "again/tables.md").read_text() == text

    def test_other_runs_can_be_told_apart(self, tmp_path):
        for name in ("small", "large"):
            write_run(tmp_path / f"runs/{name}/mine/seed-0", Experiment(name="mine"), 0.25)
        write_report([tmp_path / "runs"], tmp_path)
        text = (tmp_path / "tables.md").read_text()
        assert "| mine, crawl, small/mine/seed-0 |" in text
        assert "| mine, crawl, large/mine/seed-0 |" in text

    def test_tables_are_found_where_reproduce_puts_them(self, tmp_path):
        write_run(tmp_path / "runs/mine", Experiment(name="mine"), 0.25)
        planned = next(TABLES["zinc"]().rows[0].runs())
        write_run(tmp_path / "runs/reproduce" / planned.place, planned.experiment, 0.1)
        write_report([tmp_path / "runs"], tmp_path)
        text = (tmp_path / "tables.md").read_text()
        assert "| CRaWl | 0.0846 ± 0.0035 (± 0.0012) | 0.1000 |" in text
        assert "| mine, crawl, mine |" in text

    def test_other_runs_are_collected_too(self, tmp_path):
        write_run(tmp_path / "runs/mine", Experiment(name="mine"), 0.25)
        write_run(tmp_path / "runs/begun", Experiment(name="begun"))
        write_report([tmp_path / "runs"], tmp_path / "a", collect=True)
        write_report([tmp_path / "a/runs.json"], tmp_path / "b")
        text = (tmp_path / "a/tables.md").read_text()
        assert "| mine, crawl, mine |" in text
        assert f"| {tmp_path / 'runs/begun'} |" in text
        assert (tmp_path / "b/tables.md").read_text() == text

    def test_equal_records_are_one_run_and_different_ones_are_refused(self, tmp_path):
        for folder, score in (("a", 0.1), ("b", 0.1), ("c", 0.2)):
            write_planned(tmp_path / folder, "zinc/crawl/seed-0", score)
        assert places(find_runs([tmp_path / "a", tmp_path / "b"])) == [["zinc/crawl/seed-0"]]
        with pytest.raises(ValueError, match=r"/a and .*/c hold different results of zinc/crawl/seed-0: report one"):
            find_runs([tmp_path / "a", tmp_path / "b", tmp_path / "c"])

    def test_a_finished_run_counts_before_an_unfinished_one(self, tmp_path):
        write_planned(tmp_path / "a", "zinc/crawl/seed-0")
        write_planned(tmp_path / "b", "zinc/crawl/seed-0", 0.1)
        for names in ("ab", "ba"):
            ((_, runs),) = find_runs([tmp_path / name for name in names])
            assert runs["zinc/crawl/seed-0"].is_finished

    def test_rows_that_tables_share_come_from_any_path(self, tmp_path):
        write_planned(tmp_path / "a", "zinc/crawl/seed-0", 0.1)
        write_planned(tmp_path / "b", "ablation_zinc/none-un/seed-0", 0.2)
        assert places(find_runs([tmp_path / "a", tmp_path / "b"])) == [
            ["zinc/crawl/seed-0"],
            ["ablation_zinc/none-un/seed-0", "zinc/crawl/seed-0"],
        ]


class TestFolders:
    def test_the_folder_of_one_table(self, tmp_path, monkeypatch):
        write_planned(tmp_path, "zinc/crawl/seed-0", 0.1)
        write_planned(tmp_path, "ablation_zinc/none-un/seed-0", 0.2)
        for path in (tmp_path / "ablation_zinc", Path()):
            monkeypatch.chdir(tmp_path / "ablation_zinc")
            ((table, runs),) = find_runs([path])
            assert table.name == "ablation_zinc"
            assert list(runs) == ["ablation_zinc/none-un/seed-0", "zinc/crawl/seed-0"]

    def test_a_folder_of_small_files(self, tmp_path):
        write_planned(tmp_path / "runs", "zinc/crawl/seed-0", 0.1)
        write_run(tmp_path / "runs/mine", Experiment(), 0.2)
        write_report([tmp_path / "runs"], tmp_path / "results", collect=True)
        (tmp_path / "results/other.json").write_text("{}")
        assert places(find_runs([tmp_path / "results"])) == places(find_runs([tmp_path / "runs"]))

    def test_scores_on_all_parts_bring_together_the_runs_of_several_tables(self, tmp_path):
        scores = {part: {"mean": mean, "internal_deviation": 0.01} for part, mean in (("test", 0.3), ("val", 0.2))}
        scores["train"] = {"mean": 0.1, "internal_deviation": 0.0, "evaluations": [0.1]}
        for place in ("zinc/crawl/seed-0", "peptides/crawl/seed-0"):
            write_run(tmp_path / "runs" / place, planned(place).experiment, 0.3, scores=scores)
        assert [table.name for table, _ in find_runs([tmp_path / "runs/zinc"])] == ["zinc"]
        written = write_report([tmp_path / "runs"], tmp_path / "report", collect=True)
        assert {path.name for path in written if "extended" in path.name} == set()
        text = (tmp_path / "report/tables.md").read_text()
        assert "| ZINC, validation | 0.1140 ± 0.0045 (± 0.0012) | 0.2000 | +0.0860 | – | 0.0100 | 1 of 5 |" in text
        assert "| ZINC, training | 0.0491 ± 0.0089 | 0.1000 | +0.0509 | – | – | 1 of 5 |" in text
        assert "| PEPTIDES-FUNC, test | 0.7074 ± 0.0032 (± 0.0006) | 0.3000 |" in text
        assert "MNIST, test" not in text
        write_report([tmp_path / "report"], tmp_path / "again")
        assert (tmp_path / "again/tables.md").read_text() == text

    def test_small_files_do_not_hide_runs_beside_them(self, tmp_path):
        write_planned(tmp_path, "zinc/crawl/seed-0", 0.1)
        with pytest.raises(ValueError, match=r"holds runs: choose another folder for --collect with -o\.$"):
            write_report([tmp_path], tmp_path, collect=True)
        write_report([tmp_path], tmp_path / "small", collect=True)
        assert places(find_runs([tmp_path / "small"])) == places(find_runs([tmp_path]))
        write_run(tmp_path / "small/molecules/runs/esol-crawl/member-1", Experiment(name="esol"), 0.1)  # in no table
        assert places(find_runs([tmp_path / "small"])) == places(find_runs([tmp_path / "small/zinc.json"]))
        (tmp_path / "small/zinc.json").rename(tmp_path / "zinc.json")
        with pytest.raises(ValueError, match=r"holds both runs and small files, zinc\.json first: move these\.$"):
            find_runs([tmp_path])

    def test_a_run_that_is_called_like_a_table(self, tmp_path):
        path = write_run(tmp_path / "zinc", Experiment(name="mine"), 0.25)
        assert places(find_runs([path])) == [[str(path)]]

    def test_runs_beside_those_of_tables_are_other_runs(self, tmp_path):
        write_planned(tmp_path, "zinc/crawl/seed-0", 0.1)
        beside = write_run(tmp_path / "mine", Experiment(), 0.2)
        unplanned = write_run(tmp_path / "zinc/crawl/seed-99", Experiment(seed=99), 0.3)
        assert places(find_runs([tmp_path])) == [["zinc/crawl/seed-0"], [str(beside), str(unplanned)]]
        assert places(find_runs([tmp_path / "zinc"])) == [["zinc/crawl/seed-0"], [str(unplanned)]]

    def test_damaged_runs_are_in_the_report(self, tmp_path):
        for place in ("zinc/crawl/seed-0", "mine"):
            write_run(tmp_path / place, Experiment(), 0.1)
            (tmp_path / place / "result.json").write_text("{}")
        write_report([tmp_path], tmp_path / "report")
        text = (tmp_path / "report/tables.md").read_text()
        assert text.count("result.json is damaged or of another version (record lacks config): run it again.") == 2


def test_the_time_of_training_is_not_that_of_an_evaluation(tmp_path):
    write_planned(tmp_path, "zinc/crawl/seed-0", 0.1)
    write_run(tmp_path / "walks/0.2/seed-0", planned("walks/0.2/seed-0").experiment, 0.1, eval_start_share=0.2)
    write_report([tmp_path], tmp_path / "report")
    text = (tmp_path / "report/tables.md").read_text()
    assert text.count("0.5 minutes of training and evaluation") == 1
    assert "1 finished run; 100 parameters; commit: None." in text
    again = planned("walks/0.4/seed-0").experiment
    trained = {"wall_time_s": 30.0, "commit": None}
    write_run(tmp_path / "walks/0.4/seed-0", again, 0.1, eval_start_share=0.4, wall_time_s=6.0, trained=trained)
    write_report([tmp_path], tmp_path / "report")
    assert "2 finished runs; 0.1 minutes of" in (tmp_path / "report/tables.md").read_text()


def test_an_evaluation_of_a_model_that_was_trained_again_is_told(tmp_path):
    write_planned(tmp_path, "zinc/crawl/seed-0", 0.1)
    place = "walks/0.4/seed-0"
    trained = {"wall_time_s": 31.0, "commit": None}
    write_run(tmp_path / place, planned(place).experiment, 0.1, eval_start_share=0.4, trained=trained)
    write_report([tmp_path], tmp_path / "report")
    row = next(line for line in (tmp_path / "report/tables.md").read_text().splitlines() if "0.4 walks" in line)
    assert "zinc/crawl/seed-0 was trained again after this evaluation: run it again." in row
    assert "| 0 of 5 |" in row


# ---- plots


@pytest.fixture
def figures(monkeypatch):
    """The figures that are saved, by the names of their files."""
    pytest.importorskip("matplotlib")
    saved = {}
    for module in (drawing, report):
        monkeypatch.setattr(module, "save_figure", lambda figure, path: saved.setdefault(path.name, figure))
    return saved


def test_without_validation_the_test_score_is_drawn(tmp_path, figures):
    for table, value in (("social", 0.4), ("social_nine", None)):
        folder = write_run(tmp_path / table / "imdb_multi/seed-0-fold-0", Experiment(), 0.5, metric="accuracy")
        epochs = [
            {"epoch": i, "loss": 1.0, "val_accuracy": value, "test_accuracy": 0.6, "seconds": 1} for i in (1, 2, 3)
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(epoch) + "\n" for epoch in epochs))
    write_report([tmp_path], tmp_path / "report")
    for table, label, value in (
        ("social", "validation accuracy", 0.4),
        ("social_nine", "without validation: test accuracy", 0.6),
    ):
        _, scores = figures[f"curves-{table}.png"].axes
        assert scores.get_ylabel() == label
        assert list(scores.lines[0].get_ydata()) == [value] * 3


def test_each_kind_of_score_has_panels_of_its_own(tmp_path, figures):
    write_planned(tmp_path, "baselines/zinc-gcn/seed-0", 0.1)
    csl = write_planned(tmp_path, "baselines/csl-gcn/seed-0-fold-0", 0.1)
    record = json.loads((csl / "result.json").read_text())
    (csl / "result.json").write_text(json.dumps({**record, "metric": "accuracy"}))
    write_report([tmp_path], tmp_path / "report")
    labels = [axes.get_ylabel() for axes in figures["curves-baselines.png"].axes]
    assert labels == ["training loss", "validation mae", "training loss", "validation accuracy"]
    (legend,) = figures["curves-baselines.png"].legends
    assert [text.get_text() for text in legend.get_texts()] == ["ZINC, gcn", "CSL, gcn"]


def test_long_names_fit_into_the_legend(tmp_path, figures):
    for i in range(9):
        write_run(tmp_path / f"walks-of-150-steps-with-measured-norms-{i}/tailed_triangle", Experiment(), 0.25)
    write_report([tmp_path], tmp_path / "report")
    figure = figures["curves-runs.png"]
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 9
    within, whole = legend.get_window_extent(), figure.bbox
    assert 0 <= within.x0 < within.x1 <= whole.width
    assert 0 <= within.y0 < within.y1 < figure.axes[0].get_window_extent().y0


def test_the_figure_has_both_curves_in_the_units_of_the_paper(tmp_path, figures):
    for place, score in (("walks/0.2/seed-0", 0.11), ("walks/0.2/seed-1", 0.13), ("walks/1.0/seed-0", 0.08)):
        write_planned(tmp_path, place, score)
    write_report([tmp_path], tmp_path / "report")
    (axes,) = figures["walks.png"].axes
    paper, ours = axes.lines[0], axes.containers[0]
    assert list(axes.get_xticks()) == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert list(paper.get_ydata()) == pytest.approx([9.989, 8.688, 8.502, 8.422, 8.406])
    assert list(ours.lines[0].get_ydata()) == pytest.approx([12.0, *[float("nan")] * 3, 8.0], nan_ok=True)
    (bars,) = ours.lines[2]
    assert bars.get_segments()[0][:, 1].tolist() == pytest.approx([11.0, 13.0])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["paper", "ours, ± between models"]
