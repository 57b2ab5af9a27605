from __future__ import annotations

import shutil


def test_two_runs_become_a_page(crawl, csl_run, tmp_path):
    shutil.copytree(csl_run, tmp_path / "other")
    done = crawl("compare", csl_run, "other", "-o", "both.html")
    assert (done.code, done.out) == (0, "")
    assert "written: both.html" in done.err
    page = (tmp_path / "both.html").read_text()
    assert "not told apart" in page
    assert "All settings are equal." in page
    assert crawl("compare", csl_run, "other", "-o", "-").out == page


def test_mistakes_are_one_line(crawl, csl_run, tmp_path):
    assert "a page is written as .html" in crawl.error("compare", csl_run, csl_run, "-o", "both.png")
    assert "two to 8 runs" in crawl.error("compare", csl_run)
    assert "not the folder of a run" in crawl.error("compare", csl_run, "nowhere")
