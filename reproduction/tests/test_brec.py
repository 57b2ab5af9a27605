"""BREC: the statistic against scipy, the pairs, and that a network distinguishes what it should and nothing else."""

from __future__ import annotations

import gzip
import hashlib

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import stats

from reproduction import brec
from reproduction.brec import (
    CATEGORIES,
    NETWORKS,
    NUM_PAIRS,
    NUM_RELABELLINGS,
    THRESHOLD,
    Contest,
    Settings,
    chosen_pairs,
    import_pairs,
    is_decided,
    load_pairs,
    relabelled_pairs,
    t_squared,
)

SMALL = Settings(hidden_channels=8, num_layers=1, num_steps=20, num_eval_steps=40, num_evaluations=3)
CUBIC, PRISM = nx.complete_bipartite_graph(3, 3), nx.circular_ladder_graph(3)  # equal for message passing
HEXAGON, TRIANGLES = nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
CPU = torch.device("cpu")


def test_t_squared_by_hand():
    differences = np.array(
        [[1.0, 0.0], [3.0, 0.0], [2.0, 1.0], [2.0, -1.0]]
    )  # mean (2, 0), variances 2/3, no covariance
    assert t_squared(differences) == pytest.approx(4 / (2 / 3))


def test_t_squared_of_one_number_is_that_of_scipy():
    differences = np.random.default_rng(0).normal(0.3, 1, (32, 1))
    assert 32 * t_squared(differences) == pytest.approx(stats.ttest_1samp(differences[:, 0], 0).statistic ** 2)


def test_t_squared_follows_the_f_distribution():
    """32 T² times (n - k) / (k (n - 1)) is F(k, n - k) for normal differences of mean 0."""
    n, k, draw = NUM_RELABELLINGS, 16, np.random.default_rng(1)
    mix = draw.normal(size=(k, k))
    scaled = [n * t_squared(draw.normal(size=(n, k)) @ mix) * (n - k) / (k * (n - 1)) for _ in range(400)]
    assert stats.kstest(scaled, stats.f(k, n - k).cdf).pvalue > 0.01
    assert (n - 1) * k / (n - k) * stats.f(k, n - k).ppf(0.95) == pytest.approx(THRESHOLD, abs=0.01)


def test_t_squared_of_answers_that_depend_on_each_other():
    differences = np.random.default_rng(2).normal(0.3, 1, (32, 3))
    repeated = np.concatenate([differences, differences[:, :1], np.zeros((32, 1))], axis=1)
    assert t_squared(repeated) == pytest.approx(t_squared(differences))
    assert t_squared(np.zeros((32, 16))) == 0


def test_categories_hold_each_pair_once():
    assert [pair for pairs in CATEGORIES.values() for pair in pairs] == list(range(NUM_PAIRS))


def test_pairs_by_number_and_category():
    assert chosen_pairs(()) == list(range(400))
    assert chosen_pairs(("3", "0-1", "4_vertex", "1-3")) == [0, 1, 2, 3, *range(360, 380)]
    for wrong in ("400", "5-400", "9-8"):
        with pytest.raises(ValueError, match=f"from 0 to 399.*{wrong}"):
            chosen_pairs((wrong,))
    with pytest.raises(ValueError, match=r"not 'cfl'.*Did you mean 'cfi'"):
        chosen_pairs(("cfl",))


def test_counts_of_evaluations():
    assert Settings(num_evaluations=1).counts == [1]
    assert Settings(num_evaluations=32).counts == [1, 2, 4, 8, 16, 32]
    assert Settings(num_evaluations=12).counts == [1, 2, 4, 8, 12]
    with pytest.raises(ValueError, match=r"num_evaluations.*not 0"):
        Settings(num_evaluations=0)


def test_when_a_pair_is_decided():
    assert is_decided(300.0, 2.0, 8, 64)
    assert not is_decided(300.0, 2.0, 4, 64)  # too few evaluations
    assert not is_decided(200.0, 2.0, 8, 64)  # not far enough above
    assert not is_decided(300.0, 30.0, 8, 64)  # the control may still fail
    assert is_decided(3.0, 1.0, 8, 64)  # 24 with 64 evaluations, 72 if it grew three times as fast
    assert not is_decided(3.1, 1.0, 8, 64)
    assert not is_decided(1.0, 3.1, 8, 64)
    assert is_decided(6.0, 1.0, 16, 64)


def test_evaluations_end_when_the_pair_is_decided():
    """And what was found so far is what all evaluations find."""
    settings = Settings(hidden_channels=16, num_layers=1, num_steps=20, num_eval_steps=40, num_evaluations=16)
    contest = Contest("crawl-8", [(0, (CUBIC, PRISM)), (1, (PRISM, PRISM))], settings, 0, CPU)
    for pair in (0, 1):
        record = contest.test(pair)
        answers = [mean for _, mean in contest._mean_answers(pair, 128 * pair + torch.arange(128))]
        differences = [mean[:64:2] - mean[1:64:2] for mean in answers]
        assert record["t2"] == pytest.approx([t_squared(each) for each in differences[:4]], rel=1e-4)
        assert len(record["control"]) == 4 < len(settings.counts)


def test_the_file_is_imported_and_checked(tmp_path, monkeypatch):
    content = b"".join(nx.to_graph6_bytes(graph, header=False) for graph in (HEXAGON, TRIANGLES))
    for name, data in (("brec.g6", content), ("brec.g6.gz", gzip.compress(content))):
        folder = tmp_path / f"folder {name}"
        folder.mkdir()
        (folder / name).write_bytes(data)
        with pytest.raises(ValueError, match=f"{name} is not BREC's file: its sha256 is.*get the file again"):
            import_pairs(folder, tmp_path / "root")
    with pytest.raises(ValueError, match="is missing: python -m reproduction import brec"):
        load_pairs(tmp_path / "root")
    monkeypatch.setattr(brec, "_SHA256", hashlib.sha256(content).hexdigest())
    for place in (folder, folder / "brec.g6.gz", tmp_path / "folder brec.g6"):
        assert import_pairs(place, tmp_path / "root") == tmp_path / "root" / "brec.g6"
    ((first, second),) = load_pairs(tmp_path / "root")
    assert nx.utils.graphs_equal(first, HEXAGON)
    assert nx.utils.graphs_equal(second, TRIANGLES)
    (folder / "brec.g6.gz").write_bytes(gzip.compress(content)[:-9])
    with pytest.raises(ValueError, match=r"is damaged.*get the file again"):
        import_pairs(folder, tmp_path / "root")
    with pytest.raises(ValueError, match=r"nowhere does not hold BREC: looked for brec.g6 and brec.g6.gz"):
        import_pairs(tmp_path / "nowhere", tmp_path / "root")


def as_networkx(store, i: int) -> nx.Graph:
    data = store.graph(i)
    graph = nx.empty_graph(data.num_nodes)
    graph.add_edges_from(data.edge_index.t().tolist())
    return graph


def test_relabellings_of_both_graphs_in_turn_then_of_one():
    path, star = nx.disjoint_union(nx.path_graph(4), nx.empty_graph(1)), nx.star_graph(3)
    store = relabelled_pairs([(7, (path, star)), (9, (star, path))], seed=0)
    assert len(store) == 2 * 4 * NUM_RELABELLINGS
    graphs = [as_networkx(store, i) for i in range(4 * NUM_RELABELLINGS)]
    assert all(nx.is_isomorphic(graph, path) for graph in graphs[: 2 * NUM_RELABELLINGS : 2])
    assert all(nx.is_isomorphic(graph, star) for graph in graphs[1 : 2 * NUM_RELABELLINGS : 2])
    control = graphs[2 * NUM_RELABELLINGS :]
    assert len({nx.is_isomorphic(graph, path) for graph in control}) == 1
    assert len({tuple(sorted(map(tuple, map(sorted, graph.edges)))) for graph in control}) > 2
    alone = relabelled_pairs([(9, (star, path))], seed=0)
    assert all(torch.equal(alone.graph(i).edge_index, store.graph(128 + i).edge_index) for i in range(128))
    other = relabelled_pairs([(9, (star, path))], seed=1)
    assert not torch.equal(other.edge_index, alone.edge_index)


@pytest.mark.parametrize("network", NETWORKS)
def test_an_easy_pair_is_distinguished_and_isomorphic_graphs_are_not(network):
    settings = Settings(hidden_channels=16, num_layers=2, num_steps=40, num_eval_steps=60, num_evaluations=4)
    mirrored = nx.relabel_nodes(PRISM, lambda node: 5 - node)
    contest = Contest(network, [(0, (CUBIC, PRISM)), (1, (PRISM, mirrored))], settings, 0, CPU)
    easy, isomorphic = contest.test(0), contest.test(1)
    assert easy["t2"][-1] > THRESHOLD
    assert max(easy["control"]) < THRESHOLD / 10
    assert max(isomorphic["t2"] + isomorphic["control"]) < THRESHOLD / 10


def test_isomorphic_graphs_are_never_distinguished():
    """Random graphs of all densities and their copies, with several seeds."""
    for seed in range(4):
        graph = nx.gnp_random_graph(7, 0.3 + 0.2 * seed, seed=seed)
        copy = nx.relabel_nodes(graph, dict(zip(range(7), np.random.default_rng(seed).permutation(7), strict=True)))
        record = Contest("crawl-8", [(5, (graph, nx.Graph(copy)))], SMALL, seed, CPU).test(5)
        assert max(record["t2"] + record["control"]) < THRESHOLD / 5


def test_a_record_depends_on_seed_and_pair_alone():
    pairs = [(3, (HEXAGON, TRIANGLES)), (8, (nx.path_graph(5), nx.star_graph(4)))]
    together = Contest("crawl-8", pairs, SMALL, 1, CPU)
    first, second = together.test(3), together.test(8)
    assert together.test(3) == first
    assert Contest("crawl-8", pairs[1:], SMALL, 1, CPU).test(8) == second
    assert Contest("crawl-8", pairs[1:], SMALL, 2, CPU).test(8) != second
    assert (len(first["t2"]), len(first["control"])) == (3, 3)  # of 1, 2 and 3 evaluations


def test_equal_relabellings_have_walks_of_their_own():
    """All relabellings of a complete graph are equal; T² would be that of 32 copies of one number."""
    settings = Settings(hidden_channels=8, num_layers=1, num_steps=20, num_eval_steps=40, num_evaluations=1)
    contest = Contest("crawl-8", [(4, (nx.complete_graph(5), nx.complete_graph(5)))], settings, 0, CPU)
    _, answers = next(contest._mean_answers(4, torch.arange(128)))
    assert len(np.unique(answers[:, 0])) == 128


def test_walks_shorter_than_the_window_are_refused():
    with pytest.raises(ValueError, match=r"Walks of 20 steps .* crawl-32: take 32"):
        Contest("crawl-32", [(0, (HEXAGON, TRIANGLES))], SMALL, 0, CPU)


@pytest.mark.usefixtures("wide_tiles")
def test_captured_steps_find_what_eager_ones_find(monkeypatch):
    """In Triton's interpreter, without a GPU: the same padded batches as in captured steps, but few of them."""
    pytest.importorskip("triton")
    monkeypatch.setattr(brec, "_MAX_EPOCHS", 1)
    monkeypatch.setattr(brec, "_EVAL_BATCH_SIZE", 4)
    settings = Settings(hidden_channels=8, num_layers=1, num_steps=16, num_eval_steps=18, num_evaluations=1)
    found = []
    for devices in ({"cuda", "cpu"}, set()):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        contest = Contest("hybrid", [(0, (nx.complete_graph(3), nx.path_graph(3)))], settings, 0, CPU)
        assert (contest.runner.reason is None) == bool(devices)
        contest._reset(0)
        _, loss = contest._train(0, torch.arange(16))  # one step
        found.append((loss, next(contest._mean_answers(0, torch.arange(4)))[1]))
    (captured_loss, captured), (eager_loss, eager) = found
    assert captured_loss == pytest.approx(eager_loss, rel=1e-4)
    np.testing.assert_allclose(captured, eager, rtol=1e-4, atol=1e-5)
