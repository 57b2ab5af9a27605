from __future__ import annotations

import json
from fractions import Fraction

import networkx as nx
import pytest

from crawl.cli.distinguish import _rounded, _written, read_any_graph
from crawl.theory import cycles, total_variation, walks_needed


def _verdicts(text: str) -> dict[str, str]:
    rows = [line.split("  ") for line in text.splitlines() if "WL" in line or "walks," in line or "trained" in line]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    return {name: verdict for name, verdict, *_ in cells}


def test_names(crawl):
    done = crawl("distinguish", "cycle:8", "cycles:4,4", "--windows", "2", "3", "--num-steps", "6")
    assert (done.code, done.err) == (0, "")
    assert "cycle:8 (8 nodes, 8 edges) and cycles:4,4 (8 nodes, 8 edges)" in done.out
    assert _verdicts(done.out) == {
        "1-WL": "no",
        "2-WL": "yes",
        "3-WL": "yes",
        "walks, uniform, window 2": "no",
        "walks, uniform, window 3": "yes",
        "walks, non-backtracking, window 2": "no",
        "walks, non-backtracking, window 3": "yes",
    }
    distance = total_variation(cycles(8), cycles(4, 4), num_steps=6, window_size=3, strategy="uniform")
    low, high = walks_needed(distance)
    expected = f"from 3 steps on; distance at 6 steps: {float(distance):.4g} ≈ {distance}; {low} to {high} walks"
    assert expected in done.out
    assert "the laws agree at every length" in done.out


def test_files_of_every_kind_are_the_same_graph(crawl, tmp_path):
    graph = nx.petersen_graph()
    nx.write_graphml(graph, tmp_path / "a.graphml")
    (tmp_path / "a.json").write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    (tmp_path / "a.txt").write_text("".join(f"n{u} n{v}\n" for u, v in graph.edges))
    (tmp_path / "a.csv").write_text("from,to,weight\n" + "".join(f"{u},{v},2.5\n{v},{u},1\n" for u, v in graph.edges))
    for name in ("a.graphml", "a.json", "a.txt", "a.csv"):
        read = read_any_graph(str(tmp_path / name), header=name == "a.csv")
        assert nx.is_isomorphic(read, graph), name
    done = crawl("distinguish", "a.graphml", "a.txt", "--windows", "3", "--num-steps", "4")
    assert set(_verdicts(done.out).values()) == {"no"}


def test_a_file_wins_over_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rook").write_text("a b\n")
    assert len(read_any_graph("rook")) == 2


def test_distances_close_to_1(crawl, tmp_path):
    (tmp_path / "edge.txt").write_text("a b\n")
    words = ("distinguish", "cycle:3", "edge.txt", "--windows", "2", "--max-k", "1", "--num-steps")
    done = crawl(*words, "100")
    assert (done.code, done.err) == (0, "")
    assert "cycle:3 (3 nodes, 3 edges) and edge.txt (2 nodes, 1 edge)" in done.out
    assert "distance at 100 steps: almost 1; 1 to 1 walks" in done.out
    assert "distance at 100 steps: 1; 1 to 1 walks" in done.out
    assert "distance at 20 steps: 1 ≈ 524287/524288; 1 to 1 walks" in crawl(*words, "20").out
    assert "distance at 2 steps: 0.5 = 1/2; " in crawl(*words, "2").out
    assert crawl(*words, "15000").code == 0  # the fraction has more digits than Python writes


def test_small_distances():
    assert _rounded(1_234_567) == "1,234,567"
    assert _rounded(3 * 10**5000) == "about 10^5000"
    assert _written(Fraction(1, 10**5000)) == "almost 0"
    assert _written(Fraction(1, 3)) == "0.3333 ≈ 1/3"
    assert _written(Fraction(1)) == "1"


def test_isomorphic(crawl, tmp_path):
    (tmp_path / "six.txt").write_text("a b\nc b\nc d\ne d\ne f\na f\n")
    assert "isomorphic: nothing can tell them apart" in crawl("distinguish", "cycle:6", "six.txt").out
    alike = crawl("distinguish", "cycle:6", "cycles:3,3", "--windows", "1", "--max-k", "1")
    assert set(_verdicts(alike.out).values()) == {"no"}
    assert "isomorphic" not in alike.out


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_picture(crawl, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    done = crawl("distinguish", "cycle:6", "cycles:3,3", "--picture", f"pair.{suffix}")
    assert done.code == 0
    assert done.err == f"Picture: pair.{suffix}\n"
    assert (tmp_path / f"pair.{suffix}").stat().st_size > 5000


def test_train(crawl):
    done = crawl("distinguish", "cycle:6", "cycles:3,3", "--windows", "3", "--train", "--num-steps", "4")
    verdicts = _verdicts(done.out)
    assert verdicts["trained GIN"] == "no"
    assert verdicts["trained CRaWl, window 4"] == "yes"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("cfi:K9 rook", "'cfi:K9' is not the name of a graph. Names: cycle:N"),
        ("missing.txt rook", "missing.txt: No such file or directory"),
        ("rok rook", "rok: No such file or directory, and not the name of a graph. Names: cycle:N"),
        ("data.txt rook", "write it with data=False"),
        ("missing.json rook", "'missing.json' cannot be read"),
        ("directed.json rook", "directed.json is directed"),
        ("loop.txt rook", "loop.txt: Node 0 has a self-loop"),
        ("empty.json rook", "empty.json: there is no edge in it"),
        ("rook rook --picture pair.txt", "a picture is a .png, .svg, .pdf file"),
        ("rook rook --picture nowhere/pair.png", "nowhere/pair.png: there is no folder nowhere"),
        (
            "cycle:99999999999 rook",
            "'cycle:99999999999': graphs by name have at most 100000 nodes: give smaller numbers",
        ),
        ("deep.json rook", "'deep.json' is not a graph: it is nested more than 100 deep"),
        ("rook rook --windows 0", "must be a whole number from 1"),
        ("rook rook --num-steps 0", "must be a whole number from 1"),
        ("rook rook --confidence 1", "between 0.5 and 1"),
    ],
)
def test_mistakes(crawl, tmp_path, words, message):
    (tmp_path / "directed.json").write_text(json.dumps(nx.node_link_data(nx.DiGraph([(0, 1), (1, 0)]), edges="edges")))
    (tmp_path / "empty.json").write_text(json.dumps(nx.node_link_data(nx.empty_graph(3), edges="edges")))
    nx.write_edgelist(nx.path_graph(3), tmp_path / "data.txt")
    (tmp_path / "loop.txt").write_text("a a\na b\n")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert message in crawl.error("distinguish", *words.split())
