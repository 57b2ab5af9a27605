"""The BREC table and plot, from rows."""

from __future__ import annotations

import pytest

from reproduction.brec import Settings
from reproduction.brec_report import brec_page, write_brec_report
from reproduction.brec_runs import Row

MADE = {"wall_time_s": 90.0, "runs_at_a_time": 2, "device": "NVIDIA H200", "commit": "abc"}


def row(network: str, seed: int, distinguished: dict[int, int], tested: range, failed: tuple[int, ...] = ()) -> Row:
    """A row that distinguishes pairs from a number of evaluations on: 0 for one, 1 for two."""
    found = Row(network, seed, Settings(num_evaluations=2), 1234, MADE)
    for pair in tested:
        first = distinguished.get(pair, 2)
        t2, control = [100.0 if i >= first else 1.0 for i in range(2)], [99.0 if pair in failed else 1.0] * 2
        found.pairs[pair] = {"pair": pair, "epochs": 3, "loss": 0.1, "t2": t2, "control": control}
    return found


def cells(page: str, name: str) -> list[str]:
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_counts_by_category_and_seed():
    page = brec_page(
        [
            row("crawl-8", 0, {0: 0, 1: 1, 2: 1, 60: 0, 3: 0}, range(61), failed=(3,)),
            row("crawl-8", 1, {0: 0, 1: 1, 60: 1}, range(62)),
            row("hybrid", 0, {399: 0}, range(400)),
        ]
    )
    assert cells(page, "CRaWl, s=8, seed 0")[:3] == ["3 / 60", "1 / 1", "–"]  # the pair whose control failed is not one
    assert cells(page, "CRaWl, s=8, seed 0")[-3:] == ["4 / 61", "1", "2"]
    assert cells(page, "CRaWl, s=8, seed 1")[:2] == ["2 / 60", "1 / 2"]
    assert cells(page, "CRaWl, s=8, mean of 2 seeds")[:2] == ["2.5 ± 0.5 / 60", "1.0 ± 0.0 / 1"]
    assert cells(page, "CRaWl, s=8, mean of 2 seeds")[-3:] == ["3.5 ± 0.5 / 61", "1 in all", "2"]
    assert cells(page, "hybrid, s=8, seed 0")[:7] == [
        *("0 / 60", "0 / 50", "0 / 50", "0 / 100", "0 / 100", "0 / 20", "1 / 20")
    ]
    assert "hybrid, s=8, mean" not in page
    assert "1.5 minutes on NVIDIA H200, 2 at a time; commit abc" in page
    assert "1,234 parameters" in page


def test_counts_by_the_number_of_evaluations():
    page = brec_page(
        [row("crawl-8", 0, {0: 0, 1: 1, 2: 1}, range(5), failed=(4,)), row("crawl-8", 1, {0: 0}, range(9))]
    )
    assert cells(page, "CRaWl, s=8") == ["5", "1.0 (1)", "2.0 (1)"]


def test_table_and_plot_are_files_beside_the_rows(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match=r"no rows of BREC in .*: python -m reproduction brec --out"):
        write_brec_report(tmp_path)
    rows = [row("crawl-8", seed, {0: 0, 61: 1}, range(100)) for seed in range(2)]
    for each in rows:
        each.write(tmp_path)
    page, plot = write_brec_report(tmp_path)
    assert page.read_text() == brec_page(rows)
    assert (plot.name, plot.read_bytes()[:4]) == ("brec.png", b"\x89PNG")
