from __future__ import annotations

import csv
import math
from dataclasses import replace
from typing import Any

import pytest

from crawl.runs.build import Features, count_parameters
from crawl.runs.experiment import Experiment
from crawl.runs.recipes import RECIPES
from crawl.runs.records import RunRecord
from crawl.training.settings import Training
from reproduction.plan import PlannedRun, Published, Row, Table
from reproduction.summary import BY_TEST, BY_VALIDATION, LAST_EPOCH, Line, summarise, to_csv, to_markdown
from reproduction.tables import GROUPS, TABLES
from tests.runs.fake_runs import make_record


@pytest.mark.parametrize("name", TABLES)
def test_plans(name):
    table = TABLES[name]()
    assert table.name == name
    assert TABLES[name].__doc__
    runs = [run for row in table.rows for run in row.runs()]
    assert len({(row.target, row.part, run.place) for row in table.rows for run in row.runs()}) == len(runs)
    for run in runs:
        assert Experiment.from_json(run.experiment.to_json()) == run.experiment
    assert set(table.needs) <= set(TABLES)
    assert any(run.place.startswith(f"{name}/") for run in runs) != table.is_overview


def test_runs_with_one_place_are_one_experiment():
    found: dict[str, Experiment] = {}
    for make in TABLES.values():
        for row in make().rows:
            for run in row.runs():
                if not run.trained:
                    assert found.setdefault(run.place, run.experiment) == run.experiment


def test_numbers_of_models():
    counts = {name: [row.num_seeds * row.num_folds for row in make().rows] for name, make in TABLES.items()}
    assert counts["zinc"] == counts["mnist"] == counts["cifar10"] == [5]
    assert counts["csl"] == [25, 25, 5, 5]
    assert counts["molpcba"] == [10]
    assert counts["peptides"] == counts["peptides_struct"] == counts["pascalvoc"] == [4]
    assert counts["social"] == [10, 10, 10]
    assert counts["counting"] == counts["counting_together"] == [4, 4, 4, 4]
    assert len({run.place for row in TABLES["counting_together"]().rows for run in row.runs()}) == 4
    assert counts["ablation_csl"] == [25] * 8
    assert counts["window"] == [3] * 6
    assert {member for members in GROUPS.values() for member in members} <= set(TABLES)


def test_tables_follow_the_paper_to_the_end():
    for name in ("csl", "ablation_csl", "zinc", "baselines"):
        assert all(row.experiment.training.early_stop is None for row in TABLES[name]().rows)
    assert all(row.experiment.data.has_validation for row in TABLES["social"]().rows)
    assert not any(row.experiment.data.has_validation for row in TABLES["social_nine"]().rows)


def test_baselines_have_the_budget_of_crawl():
    features = Features.of_benchmark("zinc")
    for row in TABLES["baselines"]().rows[:7]:
        size = count_parameters(row.experiment, features)
        assert 0.93 * 497_743 < size <= 497_743, row.label
        assert row.experiment.training == RECIPES["zinc"]().training


# ---- what is made of the records


def finished(
    planned: PlannedRun, *evaluations: float, test: tuple[float | None, ...] = (), **changes: Any
) -> RunRecord:
    return RunRecord(planned.place, make_record(planned.experiment, *evaluations, **changes), 3, 1.5, [], list(test))


def make_table(num_seeds: int, num_folds: int = 1, recipe: str = "zinc", measure: str = "score") -> Table:
    row = Row("model", "zinc/crawl", RECIPES[recipe](), num_seeds, num_folds, Published(0.085, 0.004))
    return Table("zinc", "ZINC: test mae", (row,), measure)


def test_both_spreads_over_seeds():
    table = make_table(2)
    planned = list(table.rows[0].runs())
    assert [run.place for run in planned] == ["zinc/crawl/seed-0", "zinc/crawl/seed-1"]
    runs = {run.place: finished(run, *values) for run, values in zip(planned, ((0.08, 0.1), (0.1, 0.1)), strict=True)}
    (line,) = summarise(table, runs)
    assert line.mean == pytest.approx(0.095)
    assert line.cross_deviation == pytest.approx(0.005)
    assert line.internal_deviation == pytest.approx(0.005)
    assert line.difference == pytest.approx(0.01)
    assert (line.num_finished, line.num_planned, line.notes) == (2, 2, ())


def test_a_row_can_be_one_of_several_targets():
    table = TABLES["counting_together"]()
    (run, *_) = table.rows[0].runs()
    done = finished(run, 0.1)
    assert done.record is not None
    scores = {target: {"mean": 0.01 * k, "internal_deviation": 0.001} for k, target in enumerate(("triangle", "star"))}
    done.record["scores"]["test"]["by_target"] = scores
    other = finished(list(table.rows[0].runs())[1], 0.3)  # does not tell targets apart
    lines = summarise(table, {run.place: done, other.place: other})
    assert (lines[0].mean, lines[2].mean, lines[2].internal_deviation) == (0.0, 0.01, 0.001)
    assert (lines[2].num_finished, lines[2].notes) == (
        1,
        ("unfinished: 2 of 4 runs", "1 run is left out, without a score of this target"),
    )
    assert (lines[1].mean, lines[1].num_finished) == (None, 0)
    assert lines[1].notes == ("unfinished: 2 of 4 runs", "2 runs are left out, without a score of this target")
    row = to_markdown(table, lines).splitlines()[5]
    assert row.startswith("| tailed triangle | 0.0197 ± 0.0019 | – | – | – | – | 0 of 4 |")


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_a_run_without_a_score_does_not_cost_the_others_theirs(missing):
    table = make_table(2)
    first, second = table.rows[0].runs()
    runs = {first.place: finished(first, 0.1), second.place: finished(second, 0.3)}
    assert runs[second.place].record is not None
    runs[second.place].record["scores"]["test"]["mean"] = missing
    (line,) = summarise(table, runs)
    assert (line.mean, line.num_finished) == (pytest.approx(0.1), 1)
    assert line.notes == ("1 run is left out, without a score",)


def line_of(num_seeds: int, num_folds: int, values: dict[tuple[int, int], float]) -> Line:
    """The line of a row of which the runs with these seeds and folds are finished."""
    table = make_table(num_seeds, num_folds, "csl")
    runs = {
        run.place: finished(run, values[run.experiment.seed, run.experiment.data.fold])
        for run in table.rows[0].runs()
        if (run.experiment.seed, run.experiment.data.fold) in values
    }
    (line,) = summarise(table, runs)
    return line


def test_models_are_seeds_if_there_are_several_and_else_folds():
    line = line_of(2, 2, {(0, 0): 0.9, (0, 1): 0.7, (1, 0): 0.5, (1, 1): 0.5})
    assert (line.mean, line.cross_deviation, line.notes) == (pytest.approx(0.65), pytest.approx(0.15), ())
    line = line_of(1, 2, {(0, 0): 0.9, (0, 1): 0.7})
    assert (line.cross_deviation, line.notes) == (pytest.approx(0.1), ("± over folds",))


def test_only_seeds_with_all_folds_tell_how_far_models_lie_apart():
    first = {(0, 0): 0.9, (0, 1): 0.7}
    line = line_of(3, 2, first)
    assert (line.cross_deviation, line.notes) == (pytest.approx(0.1), ("unfinished: 2 of 6 runs", "± over folds"))
    line = line_of(3, 2, first | {(1, 0): 0.2})  # one fold of the second seed changes the mean and nothing else
    assert (line.mean, line.cross_deviation) == (pytest.approx(0.6), pytest.approx(0.1))
    assert line.notes == ("unfinished: 3 of 6 runs", "± over folds")
    line = line_of(3, 2, first | {(1, 0): 0.2, (1, 1): 0.2, (2, 0): 0.5})
    assert (line.mean, line.cross_deviation) == (pytest.approx(0.5), pytest.approx(0.3))
    assert line.notes == ("unfinished: 5 of 6 runs", "± over 2 seeds")
    line = line_of(3, 2, {(0, 0): 0.9, (1, 0): 0.2})
    assert (line.mean, line.cross_deviation, line.notes) == (pytest.approx(0.55), None, ("unfinished: 2 of 6 runs",))


def test_unfinished_rows_say_so():
    table = make_table(3)
    first, second, _ = table.rows[0].runs()
    (line,) = summarise(table, {})
    assert (line.mean, line.difference, line.notes) == (None, None, ("not run",))
    text = to_markdown(table, [line])
    assert "| model | 0.0850 ± 0.0040 | – | – | – | – | 0 of 3 | not run |" in text
    begun = RunRecord(second.place, None, 17)
    (line,) = summarise(table, {first.place: finished(first, 0.09), second.place: begun})
    assert line.mean == pytest.approx(0.09)
    assert line.cross_deviation is None
    assert line.notes == ("unfinished: 1 of 3 runs, 1 begun (epoch 17)",)
    (line,) = summarise(table, {}, {first.place: "There are no data.", second.place: "There are no data."})
    assert line.notes == ("not run", "There are no data.")


def with_other_settings(run: PlannedRun) -> PlannedRun:
    return replace(run, experiment=replace(run.experiment, walk=replace(run.experiment.walk, num_steps=5)))


def test_other_settings_and_rebuilt_data_are_told():
    table = make_table(1)
    (run,) = table.rows[0].runs()
    (line,) = summarise(table, {run.place: finished(with_other_settings(run), 0.1, data="MNIST (rebuilt)")})
    assert line.notes == ("1 run has other settings than planned (walk.num_steps=5)", "data: MNIST (rebuilt)")
    (line,) = summarise(table, {run.place: finished(run, 0.1, where={"device": "cuda", "root": "/somewhere"})})
    assert line.notes == ()


def test_runs_with_other_settings_are_not_averaged_with_those_of_the_table():
    table = make_table(3)
    first, *others = table.rows[0].runs()
    runs = {run.place: finished(with_other_settings(run), 0.9) for run in others}
    (line,) = summarise(table, runs)
    assert (line.mean, line.num_finished) == (pytest.approx(0.9), 2)
    assert line.notes == ("unfinished: 2 of 3 runs", "2 runs have other settings than planned (walk.num_steps=5)")
    (line,) = summarise(table, runs | {first.place: finished(first, 0.1)})
    assert (line.mean, line.num_finished, line.cross_deviation) == (pytest.approx(0.1), 1, None)
    assert line.notes[1:] == ("2 runs are left out, with other settings than planned (walk.num_steps=5)",)
    runs[others[0].place] = finished(others[0], 0.3)
    (line,) = summarise(table, runs | {first.place: finished(first, 0.1)})
    assert line.mean == pytest.approx(0.2)
    assert line.notes[-1] == "1 run is left out, with other settings than planned (walk.num_steps=5)"


def test_of_many_other_settings_some_are_named():
    table = make_table(1)
    (run,) = table.rows[0].runs()
    other = replace(run.experiment, name="mine", seed=9, training=Training(batch_size=3, max_epochs=2, lr=0.5))
    (line,) = summarise(table, {run.place: finished(replace(run, experiment=other), 0.1)})
    assert line.notes == ("1 run has other settings than planned (name=mine, seed=9, training.lr=0.5 and 2 more)",)


def test_damaged_runs_are_told():
    table = make_table(3)
    places = [run.place for run in table.rows[0].runs()]
    runs = {place: RunRecord(place, None, problem=f"{place} is damaged.") for place in places[:2]}
    (line,) = summarise(table, runs)
    assert line.notes == ("unfinished: 0 of 3 runs", f"{places[0]} is damaged. (and 1 more)")
    (line,) = summarise(table, runs, {places[0]: "It failed again."})
    assert line.notes[1] == "It failed again. (and 1 more)"


def test_the_paper_has_two_spreads():
    (line,) = summarise(TABLES["zinc"](), {})
    text = to_markdown(TABLES["zinc"](), [line])
    assert "| CRaWl | 0.0846 ± 0.0035 (± 0.0012) | – |" in text
    assert "In brackets is how far the paper's evaluations of one model lie apart." in text
    (cells,) = csv.DictReader(to_csv({"zinc": [line]}).splitlines())
    assert (cells["paper_deviation"], cells["paper_internal_deviation"]) == ("0.00352", "0.00116")
    table = make_table(1)
    assert "In brackets" not in to_markdown(table, summarise(table, {}))


def test_tables_tell_on_what_their_runs_were_made():
    table = make_table(2)
    first, second = table.rows[0].runs()
    runs = {run.place: finished(run, 0.1, device="H200", runs_at_a_time=5) for run in (first, second)}
    (line,) = summarise(table, runs)
    assert "Made on H200, 5 runs at a time." in to_markdown(table, [line])
    assert "H200, 5 runs at a time" in to_csv({"zinc": [line]})
    runs[second.place] = finished(second, 0.1, device="H200", runs_at_a_time=10)
    assert "Made on H200, 5 to 10 runs at a time." in to_markdown(table, summarise(table, runs))
    runs[second.place] = finished(second, 0.1, device="H200")
    assert "Made on H200." in to_markdown(table, summarise(table, runs)), "it was not recorded for all"
    runs[second.place] = finished(second, 0.1, device="cpu", runs_at_a_time=1)
    lines = summarise(table, runs)
    assert "Made on H200, 5 runs at a time and cpu, one run at a time." in to_markdown(table, lines)
    text = to_markdown(table, [line, replace(line, machines=("cpu, one run at a time",))])
    assert "| on H200, 5 runs at a time |" in text
    assert "| on cpu, one run at a time |" in text
    assert "Made on" not in text


def test_notes_do_not_break_the_table():
    (line,) = summarise(make_table(1), {}, {"zinc/crawl/seed-0": "a|b is missing"})
    assert r"| not run; a\|b is missing |" in to_markdown(make_table(1), [line])


@pytest.mark.parametrize(
    ("name", "words"),
    [("walks", "0.08406, its table 1 has 0.08456"), ("ablation_csl", "exactly 10 %"), ("mnist", "80.98 nodes")],
)
def test_tables_tell_where_the_paper_disagrees(name, words):
    assert words in to_markdown(TABLES[name](), summarise(TABLES[name](), {}))


@pytest.mark.parametrize("last", [2 / 3, 0.66667])  # as measured, and as a small file keeps it
def test_of_equal_epochs_the_first_is_reported(last):
    row = Row("IMDB", "social/imdb_multi", RECIPES["imdb_multi"](), 1, 2, Published(0.4777, 0.0387))
    curves = ((0.3, 2 / 3, 1 / 3), (0.4, 1 / 3, last))
    runs = {
        run.place: finished(run, 0.55, metric="accuracy", test=curve)
        for run, curve in zip(row.runs(), curves, strict=True)
    }
    line, _ = summarise(Table("social", "Social: test accuracy", (row,)), runs)
    assert line.notes == ("± over folds", "epoch 2, as good as 3, one evaluation")


def test_epochs_without_test_scores_are_not_reported():
    row = Row("IMDB", "social/imdb_multi", RECIPES["imdb_multi"](), 1, 2, Published(0.4777, 0.0387))
    runs = {run.place: finished(run, 0.55, metric="accuracy") for run in row.runs()}
    line, by_validation = summarise(Table("social", "Social: test accuracy", (row,)), runs)
    assert (line.mean, line.notes) == (None, ("no test scores of the epochs",))
    assert by_validation.mean == pytest.approx(0.55)


def test_what_is_not_a_number_is_empty_in_a_file():
    (line,) = summarise(make_table(1), {})
    rows = list(csv.DictReader(to_csv({"zinc": [replace(line, mean=math.nan)]}).splitlines()))
    assert (rows[0]["ours"], rows[0]["difference"]) == ("", "")


def test_both_ways_to_choose_the_epoch():
    row = Row("IMDB", "social/imdb_multi", RECIPES["imdb_multi"](), 1, 2, Published(0.4777, 0.0387))
    table = Table("social", "Social: test accuracy", (row,), note="Chosen with the test data.")
    curves = ((0.5, 0.7, 0.6), (0.4, 0.5, 0.7))
    runs = {
        run.place: finished(run, 0.55, metric="accuracy", test=curve)
        for run, curve in zip(row.runs(), curves, strict=True)
    }
    by_test, by_validation = summarise(table, runs)
    assert (by_test.selection, by_validation.selection) == (BY_TEST, BY_VALIDATION)
    assert by_test.mean == pytest.approx(0.65)  # epoch 3
    assert by_test.cross_deviation == pytest.approx(0.05)
    assert by_test.notes == ("± over folds", "epoch 3, one evaluation")
    assert by_test.difference == pytest.approx(0.65 - 0.4777)
    assert (by_validation.mean, by_validation.published) == (pytest.approx(0.55), None)
    text = to_markdown(table, [by_test, by_validation])
    assert "47.77 % ± 3.87 %" in text
    assert "+17.23 %" in text
    assert "Chosen with the test data." in text
    first = next(row.runs())
    runs[first.place] = finished(first, 0.55, metric="accuracy", test=(0.5, 0.7, None))
    by_test, _ = summarise(table, runs)
    assert by_test.notes[1:] == ("epoch 2, one evaluation", "1 epoch is left out, without a score in every fold")
    record = runs[first.place].record
    assert record is not None
    record["scores"]["test"]["mean"] = None  # the last evaluation failed; the curve is there
    by_test, by_validation = summarise(table, runs)
    assert (by_test.num_finished, by_validation.num_finished) == (2, 1)
    assert by_test.mean == pytest.approx(0.6)
    runs[first.place] = finished(first, 0.55, metric="accuracy", test=(None, None, None))
    assert summarise(table, runs)[0].notes[-1] == "no test scores of the epochs"
    nine = replace(row, experiment=replace(row.experiment, data=replace(row.experiment.data, has_validation=False)))
    assert summarise(replace(table, rows=(nine,)), {})[1].selection == LAST_EPOCH


def test_seconds():
    table = make_table(1, measure="seconds")
    (run,) = table.rows[0].runs()
    (line,) = summarise(table, {run.place: finished(run, 0.1)})
    assert (line.mean, line.metric, line.internal_deviation) == (1.5, "seconds", None)
    assert "1.5 s" in to_markdown(table, [line])


def test_csv_has_all_digits():
    table = make_table(1)
    (run,) = table.rows[0].runs()
    (cells,) = csv.DictReader(to_csv({"zinc": summarise(table, {run.place: finished(run, 0.123456)})}).splitlines())
    assert (cells["ours"], cells["paper"], cells["difference"]) == ("0.123456", "0.085", "0.038456")
    assert (cells["num_finished"], cells["cross_deviation"]) == ("1", "")
