"""The real files, in the folder that the variable CRAWL_TEST_DATA names."""

import os
from pathlib import Path

import pytest

from crawl.data.benchmarks import BENCHMARKS, load_benchmark
from crawl.runs.build import Features, count_parameters
from crawl.runs.recipes import RECIPES
from reproduction.imports import import_files

FOLDER = Path(os.environ.get("CRAWL_TEST_DATA", "missing"))
pytestmark = [pytest.mark.data, pytest.mark.skipif(not FOLDER.is_dir(), reason="CRAWL_TEST_DATA is not set")]


@pytest.mark.parametrize("name", ["zinc", "counting_star", "imdb_multi", "reddit_binary", "collab"])
def test_import_and_load(name, tmp_path):
    import_files(name, FOLDER, tmp_path)
    dataset = load_benchmark(name, tmp_path)
    assert dataset.name == BENCHMARKS[name].title
    expected = Features.of_benchmark(name)
    experiment = RECIPES[name]()
    assert count_parameters(experiment, Features.of(dataset)) == count_parameters(experiment, expected)
