from __future__ import annotations

import pytest

from crawl.runs import TU, Benchmark, Counting, Csl, Csv, Folder, Social, Superpixels
from crawl.runs.sources import KINDS, existing_path


@pytest.mark.parametrize("kind", [Csv, TU, Folder])
def test_fractions_are_for_splits_that_are_drawn(kind):
    assert kind(split="stratified", fractions=(0.5, 0.25, 0.25)).fractions[0] == 0.5
    with pytest.raises(ValueError, match=r"\(0\.5, 0\.25, 0\.25\) cannot change the split 'part'.*: leave out"):
        kind(split="part", fractions=(0.5, 0.25, 0.25))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Benchmark("zink"), r"data\.name must be one of .*, not 'zink'. Did you mean 'zinc'"),
        (lambda: Superpixels("zinc"), r"data\.name must be one of mnist, cifar10, not 'zinc'"),
        (lambda: Social("csl"), r"data\.name must be one of collab, imdb_multi, reddit_binary, not 'csl'"),
        (lambda: Social(fold=-1), r"data\.fold must be a whole number from 0 .*, not -1"),
        (lambda: Csl(laplacian=1.5), r"data\.laplacian must be a whole number from 0 .*, not 1\.5"),
        (lambda: Counting("circle"), r"data\.target must be one of triangle, .*, not 'circle'"),
        (lambda: TU(num_folds=2), "The number of folds must be a whole number from 3"),
        (lambda: TU(num_folds=3, fold=3), r"data\.fold must be a whole number from 0 to 2, not 3"),
        (lambda: Csv(fold=1), r"data\.fold must be a whole number from 0 to 0, not 1"),
        (lambda: Csv(num_folds=5, split="part"), "Folds are drawn, so data.split='part', which gives the parts"),
        (lambda: Csv(num_folds=5, split="files"), "Folds are drawn, so data.split='files'"),
        (lambda: Folder(num_folds=5, fractions=(0.5, 0.25, 0.25)), "cannot change the sizes of folds: leave it out"),
        (lambda: Csv(split=3), r"data\.split must be a way to split, a column or a file, not 3"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("setting", ["fold", "path", "root", "device", "laplacian", "targets"])
def test_a_setting_without_effect_cannot_be_written(setting):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{setting}'"):
        Benchmark("zinc", **{setting: 1})


def test_names_lead_to_their_kinds():
    assert {KINDS[name] for name in ("zinc", "counting_star")} == {Benchmark}
    assert all(KINDS[kind.name] is kind for kind in (Csl, Counting, Csv, TU, Folder))


def test_files_must_be_there(tmp_path):
    assert existing_path(TU(), tmp_path) == tmp_path
    with pytest.raises(ValueError, match=r"'csv' need --data\.path .*file or folder"):
        existing_path(Csv(), None)
    with pytest.raises(ValueError, match=r"There is no file or folder .*missing"):
        existing_path(Csv(), tmp_path / "missing")
