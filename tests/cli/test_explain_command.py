from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from crawl.cli.explain import chosen_rows

pytestmark = [
    pytest.mark.filterwarnings("ignore:Class"),
    pytest.mark.filterwarnings("ignore:The (val|test) part has no score"),
]
QUICK = ("--num-repeats", "1", "--num-points", "2")


def test_a_page_with_a_section_for_each_row(crawl, molecule_runs, molecules):
    done = crawl(
        "explain", molecule_runs["logS"], molecules, "-o", "page.html", "--rows", "3-4,9", "--json", "a.json", *QUICK
    )
    assert done.code == 0, done.err
    assert done.out == ""
    assert done.err == "3 rows, 1 not explained (the page says why) → page.html\n"
    text = Path("page.html").read_text()
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles == ["3. CCC", "4. nonsense", "9. c1ccccc1", "How to read this page"]
    assert "Not explained: &#39;nonsense&#39; is not a molecule" in text
    assert not [link for link in re.findall(r"https?://[^\s\"'<]+", text) if not link.startswith("http://www.w3.org/")]
    assert "logS on molecules.csv · Blue adds" in text  # a page for others names no folders of this machine
    rows = json.loads(Path("a.json").read_text())["rows"]
    assert [row["name"] for row in rows] == titles[:-1]
    assert "nonsense" in rows[1]["reason"]
    ring = rows[2]
    assert sum(ring["nodes"]) + sum(ring["edges"]) + ring["residual"] == pytest.approx(
        ring["prediction"] - ring["baseline"], abs=1e-4
    )
    assert len(ring["nodes"]) == 6
    predicted = crawl("predict", molecule_runs["logS"], molecules, "--num-repeats", "1").out.splitlines()
    column = predicted[0].split(",").index("predicted_logS")
    assert ring["prediction"] == pytest.approx(float(predicted[9].split(",")[column]), abs=1e-4)


def test_classes_by_name(crawl, molecule_runs, molecules):
    words = ("explain", molecule_runs["kind"], molecules, "--rows", "1", *QUICK)
    assert crawl(*words, "-o", "a.html", "--target", "b", "--json", "a.json").code == 0
    row = json.loads(Path("a.json").read_text())["rows"][0]
    assert row["target"] == "logit of b"
    assert 0 < row["probability"] < 1
    assert row["subgraphs"] == []  # one atom
    assert crawl.error(*words, "-o", "b.html", "--target", "d") == "target must be one of a, b, c, not 'd'."
    assert not Path("b.html").exists()


def test_rows_that_are_not_there_are_told_of(crawl, molecule_runs, molecules):
    words = ("explain", molecule_runs["logS"], molecules, "-o", "a.html", *QUICK)
    number = len(molecules.read_text().splitlines()) - 1
    done = crawl(*words, "--rows", "1,99")
    assert done.code == 0
    assert f"There is no row 99: {molecules} has {number}." in done.err
    assert "1 rows →" in done.err
    assert "There are no rows 13, 14, 15, 16, 17, … (8 in all): " in crawl(*words, "--rows", "12-20").err
    assert "There " not in crawl(*words, "--rows", f"1,{number}").err


def test_several_targets_need_a_flag(crawl, tiny, molecules):
    data = ("--data.path", molecules, "--data.targets", "logS", "active", "--data.task", "regression")
    assert crawl("train", "csv", *data, "--out", "run", *tiny).code == 0
    message = "The model predicts logS, active: say which to explain by target (--target NAME)."
    assert crawl.error("explain", "run", molecules, "-o", "a.html", *QUICK) == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "page.txt"), "Explanations are a page: give a name that ends in .html, not page.txt."),
        (("-o", "a.html", "--rows", "0"), "--rows are numbers from 1"),
        (("-o", "a.html", "--rows", "5-3"), "--rows are numbers from 1"),
        (("-o", "a.html", "--rows", "1-1000"), "A page shows 100 rows at most, but --rows names 1000."),
        (("-o", "a.html", "--rows", "50"), "No row of"),
        (("-o", "a.html", "--rows", "4"), "No row of"),
        (("-o", "a.html", "--top", "0"), "--top must be a whole number from 1 to 100, not 0."),
        (("-o", "a.html", "--num-points", "0"), "--num-points must be a whole number"),
        (("-o", "a.html", "--ids", "5"), "The model predicts graphs, so --ids cannot change anything: choose --rows."),
        (("-o", "a.html", "--json", "molecules.csv"), "The output would replace the input"),
        (("-o", "none/a.html", "--rows", "1", *QUICK), "none/a.html"),
    ],
)
def test_wrong_flags(crawl, molecule_runs, molecules, words, message):
    before = molecules.read_text()
    assert message in crawl.error("explain", molecule_runs["logS"], molecules, *words)
    assert molecules.read_text() == before
    assert not Path("a.html").exists()


@pytest.mark.parametrize("flag", ["--batch-size", "--memory", "--only"])
def test_flags_of_batches_are_not_known(crawl, molecule_runs, molecules, flag):
    done = crawl("explain", molecule_runs["logS"], molecules, "-o", "a.html", flag, "5")
    assert done.code == 2
    assert f"{flag} (applied to crawl explain)" in done.err
    assert not Path("a.html").exists()


def test_rows():
    assert chosen_rows("1-10") == [range(1, 11)]
    assert chosen_rows("3, 7,20-25") == [range(3, 4), range(7, 8), range(20, 26)]
