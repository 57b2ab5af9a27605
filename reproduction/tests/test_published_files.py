"""The real files, in the folder that the variable CRAWL_TEST_DATA names."""

import os
from pathlib import Path

import networkx as nx
import pytest

from crawl.data.benchmarks import BENCHMARKS, load_benchmark
from crawl.runs.build import Features, count_parameters
from crawl.runs.recipes import RECIPES
from reproduction.brec import CATEGORIES, NUM_PAIRS, import_pairs, load_pairs
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


def test_pairs_of_brec(tmp_path):
    import_pairs(FOLDER, tmp_path)
    pairs = load_pairs(tmp_path)
    assert len(pairs) == NUM_PAIRS
    for first, second in pairs:
        assert sorted(dict(first.degree).values()) == sorted(dict(second.degree).values())
    assert {len(first) for first, _ in (pairs[i] for i in CATEGORIES["4_vertex"])} == {63}
    assert all(nx.is_strongly_regular(graph) for i in CATEGORIES["strongly_regular"] for graph in pairs[i])
    assert all(nx.is_distance_regular(graph) for i in CATEGORIES["distance_regular"] for graph in pairs[i])
