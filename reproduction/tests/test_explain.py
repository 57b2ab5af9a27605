"""Explanations are measured on known motifs and by removing subgraphs; records make the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import networkx as nx
import pytest
from torch_geometric.utils import to_networkx

from reproduction import explain
from reproduction.__main__ import main
from reproduction.explain import Settings, explain_page, motif_graphs, read_parts, run_parts, write_explain_report

RESULTS = Path(__file__).parents[2] / "results"
TINY = Settings(num_repeats=1, num_points=2, num_graphs=3, epochs=1)
MOLECULES = [
    "CCO",
    "c1ccccc1",
    "CCCCN",
    "c1ccccc1O",
    "CCCl",
    "CC(C)O",
    "CCCCCC",
    "c1ccncc1",
    "CCOC",
    "CC(=O)O",
    "CCBr",
    "CCCO",
]


def test_motifs_are_where_they_are_said_to_be() -> None:
    graphs, motifs = motif_graphs(12, seed=3)
    for i, (data, motif) in enumerate(zip(graphs, motifs, strict=True)):
        graph = to_networkx(data, to_undirected=True)
        assert 16 <= len(graph) <= 26
        assert nx.is_connected(graph)
        assert data.y == i % 3
        expected = (nx.empty_graph(0), nx.cycle_graph(6), nx.house_graph())[i % 3]
        assert nx.is_isomorphic(graph.subgraph(motif), expected)
        assert graph.number_of_edges() == len(graph) - 1 + (0, 1, 2)[i % 3]


def test_parts_are_measured_once_and_make_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.setattr(explain, "motif_graphs", lambda number: motif_graphs(30))
    parts = ("train", "train", "val", "test")
    lines = [f"{smiles},{i / 3 - 1},{parts[i % 4]}" for i, smiles in enumerate(MOLECULES)]
    table = tmp_path / "esol.csv"
    table.write_text("\n".join(["smiles,logS,split", *lines]) + "\n")
    out = tmp_path / "out"
    page, record = run_parts(out, (), TINY, esol=table, quiet=True)
    found = {part.part: part for part in read_parts(out)}
    assert set(found) == {"motifs", "esol"}
    assert len(found["motifs"].graphs) == len(found["esol"].graphs) == 3
    assert found["esol"].run["num_epochs"] == 1
    assert found["esol"].summary["num_graphs"] >= 1
    first = found["esol"].graphs[0]
    assert first["smiles"] == MOLECULES[3]
    text, before = page.read_text(), {path: path.stat().st_mtime_ns for path in out.glob("[me]*s*.json")}
    run_parts(out, (), TINY, esol=table, quiet=True)
    assert {
        path: path.stat().st_mtime_ns for path in (out / "motifs.json", out / "esol.json")
    }.items() <= before.items()
    assert page.read_text() == text
    other = tmp_path / "other"  # with the record of both alone
    other.mkdir()
    (other / "explain.json").write_text(record.read_text())
    assert write_explain_report(other)[0].read_text() == text
    assert (other / "explain.json").read_text() == record.read_text()


def test_what_is_wrong_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="say where it is by --esol"):
        run_parts(tmp_path, ("esol",), TINY, esol=None)
    with pytest.raises(ValueError, match="leave out --esol"):
        run_parts(tmp_path, ("motifs",), TINY, esol=Path("a.csv"))
    with pytest.raises(ValueError, match="A part must be one of motifs, esol"):
        run_parts(tmp_path, ("motif",), TINY, esol=None)
    with pytest.raises(ValueError, match="Nothing was measured"):
        write_explain_report(tmp_path)
    for content in ("{}", "[]", "nonsense", json.dumps({"format": "crawl-explain-1", "part": "motifs"})):
        (tmp_path / "motifs.json").write_text(content)
        with pytest.raises(ValueError, match=r"motifs\.json"):
            read_parts(tmp_path)
    assert main(["explain", "--report", "motifs", "--out", str(tmp_path)]) == 2
    assert "leave out the parts" in capsys.readouterr().err


def test_the_page_is_what_the_record_says() -> None:
    assert (RESULTS / "explain.md").read_text() == explain_page(read_parts(RESULTS))


def test_numbers_in_the_documentation_are_in_the_page() -> None:
    text = (RESULTS.parent / "docs" / "explain.md").read_text()
    about = text[text.index("## Is it right?") : text.index("The same test for your own graphs")]
    page = (RESULTS / "explain.md").read_text()
    numbers = re.findall(r"\d+\.\d+%?", about)
    assert len(numbers) == 7
    assert all(number in page for number in numbers)
