"""The page needs nothing else, shows what there is to show, and obeys nothing that it is given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from crawl import explain
from crawl.explanations import Explanation
from crawl.explanations.drawing import can_draw, draw_explanation, draw_subgraph
from crawl.explanations.page import explanation_page
from tests.browser import Browser
from tests.explanations.small_models import house, network


@pytest.fixture(scope="module")
def found() -> Explanation:
    return explain(network(), house(), target=0, num_repeats=2, num_points=2, top=3)


def check_alone(text: str) -> None:
    """Nothing in the page is elsewhere, and nothing in it runs."""
    assert not re.findall(r"""(?:src|href|action)\s*=\s*(?!["'](?:#|data:,))""", text)
    assert not re.findall(r"url\((?!['\"]?#)|@import|<script|<iframe|<object|javascript:", text)
    assert not [link for link in re.findall(r"https?://[^\s\"'<]+", text) if not link.startswith("http://www.w3.org/")]


def test_the_page_needs_nothing_else(found: Explanation, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = found.save_html(tmp_path / "page.html")
    text = path.read_text()
    check_alone(text)
    assert text.count("<svg") == 1 + len(found.subgraphs)
    for subgraph in found.subgraphs:
        assert subgraph.title in text
        assert f"{subgraph.score:+.3g}" in text


def test_a_browser_has_nothing_to_complain_about(found: Explanation, browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    browser.look_at(found.save_html(tmp_path / "page.html"), tmp_path).check()


def test_one_evaluation_has_no_spread(found: Explanation) -> None:
    pytest.importorskip("matplotlib")
    once = explain(network(), house(), target=0, num_repeats=1, num_points=2, top=3)
    assert f"{once.prediction:.4g}<" in explanation_page([("once", once)])
    assert f"{found.prediction:.4g} ± {found.prediction_spread:.2g}<" in explanation_page([("twice", found)])


def test_names_and_reasons_are_text(found: Explanation) -> None:
    pytest.importorskip("matplotlib")
    text = explanation_page([("<script>alert(1)</script>", "it is <b>not</b> a molecule"), ("a & b", found)])
    check_alone(text)
    assert "&lt;script&gt;" in text
    assert "Not explained: it is &lt;b&gt;not&lt;/b&gt; a molecule" in text


def test_molecules_are_drawn_by_rdkit() -> None:
    pytest.importorskip("rdkit")
    from dataclasses import replace

    from crawl.data.smiles import molecule_graph

    torch.manual_seed(0)
    graph = molecule_graph("c1ccccc1CO")
    data = Data(x=torch.randn(8, 3), edge_index=graph.edge_index, edge_attr=torch.randn(graph.num_edges, 2))
    found = replace(explain(network(), data, target=0, num_repeats=1, num_points=2), smiles="c1ccccc1CO")
    pictures = [draw_explanation(found, "all"), *(draw_subgraph(found, each, "one") for each in found.subgraphs)]
    assert all("<ellipse" in picture for picture in pictures)
    top = found.subgraphs[0]
    assert len(re.findall("<ellipse", pictures[1])) == len(top.nodes)
    check_alone(explanation_page([("benzyl alcohol", found)]))


def test_large_graphs_have_no_picture_and_say_so() -> None:
    ring = torch.arange(201)
    edge_index = torch.cat([torch.stack([ring, ring.roll(1)]), torch.stack([ring.roll(1), ring])], dim=1)
    data = Data(x=torch.randn(201, 3), edge_index=edge_index, edge_attr=torch.randn(402, 2))
    found = explain(network(num_layers=1), data, target=0, num_repeats=1, num_points=1)
    assert not can_draw(found)
    assert "There is no picture, since the graph has 201 nodes" in explanation_page([("large", found)])
    with pytest.raises(ValueError, match="too large for a picture"):
        draw_explanation(found, "large")


def test_a_graph_without_edges_has_a_page() -> None:
    pytest.importorskip("matplotlib")
    data = Data(x=torch.randn(2, 3), edge_index=torch.empty(2, 0, dtype=torch.long), edge_attr=torch.empty(0, 2))
    found = explain(network(), data, target=0, num_repeats=1, num_points=1)
    assert "No walk went through two nodes" in explanation_page([("two nodes", found)])
