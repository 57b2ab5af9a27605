"""Sums over groups of rows in Triton: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from crawl import Graph, sample_walks
from crawl.ops.segments import Segments, places_of

pytest.importorskip("triton")
from crawl.ops.triton import segments

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("num_channels", [1, 16, 37, 300])
def test_sums_over_groups(num_channels: int) -> None:
    torch.manual_seed(0)
    rows = torch.randn(120, num_channels)
    ids = torch.randint(0, 7, (120,))
    ids[ids == 3] = 4  # an empty group
    found = segments.sum_rows(rows.to(DEVICE), *places_of(ids.to(DEVICE), 7))
    expected = torch.zeros(7, num_channels).index_add(0, ids, rows)
    assert torch.allclose(found.cpu(), expected, atol=1e-5)


@pytest.mark.parametrize("sizes", [[600], [0, 3, 70, 64, 0, 2, 200, 1], [5, 59, 64, 128, 7, 63, 65, 0], [1] * 130])
@pytest.mark.parametrize("has_order", [True, False])
def test_long_groups_are_summed_in_pieces(sizes: list[int], has_order: bool, monkeypatch) -> None:
    monkeypatch.setattr(segments, "_LONG", 64)
    monkeypatch.setattr(segments, "_PIECE", 16)
    torch.manual_seed(0)
    rows = torch.randn(sum(sizes), 70)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    order = torch.randperm(len(rows)) if has_order else torch.arange(len(rows))
    group = torch.repeat_interleave(torch.tensor(sizes))
    launches = Launches(segments._sum_pieces)
    monkeypatch.setattr(segments, "_sum_pieces", launches)
    arguments = rows.to(DEVICE), ptr.to(DEVICE), order.to(DEVICE) if has_order else None
    expected = torch.zeros(len(sizes), 70).index_add(0, group, rows[order])
    assert torch.allclose(segments.sum_rows(*arguments).cpu(), expected, atol=1e-5)
    assert launches.number == 1
    assert torch.allclose(segments.sum_rows(*arguments, longest=64).cpu(), expected, atol=1e-5)
    assert launches.number == 1  # no group was said to be long


class Launches:
    """A kernel that counts its launches."""

    def __init__(self, kernel) -> None:
        self.kernel, self.number = kernel, 0

    def __getitem__(self, grid):
        self.number += 1
        return self.kernel[grid]


def test_the_mean_of_windows_at_a_hub(monkeypatch) -> None:
    leaves = torch.arange(1, 30)
    star = Graph.from_edge_index(torch.stack([torch.zeros_like(leaves), leaves]), 30, undirected=True)
    walks = sample_walks(star, 20, window_size=4, seed=0)
    num_windows = walks.nodes.shape[1] - 4
    windows = torch.randn(len(walks) * num_windows, 20, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    on_device = Segments.of(walks.nodes.flatten().to(DEVICE), 30)
    of_whole, of_pieces = (torch.empty_like(windows, dtype=torch.int8) for _ in range(2))
    whole = segments.mean_windows(windows, on_device, walks.nodes.shape[1], 5, is_active=of_whole)
    monkeypatch.setattr(segments, "_LONG", 64)
    monkeypatch.setattr(segments, "_PIECE", 16)
    pieces = segments.mean_windows(windows, on_device, walks.nodes.shape[1], 5, is_active=of_pieces)
    assert torch.allclose(whole[0], pieces[0], atol=1e-5)
    assert torch.equal(whole[1], pieces[1])
    assert torch.equal(of_whole, of_pieces)
    centre = walks.nodes[:, 2:-2].flatten()
    expected = torch.zeros(30, 20).index_add(0, centre, windows.cpu().relu()) / centre.bincount(minlength=30).clamp_min(
        1
    ).unsqueeze(1)
    assert torch.allclose(pieces[0].cpu(), expected, atol=1e-5)


@pytest.mark.parametrize("num_real", [0, 3, 5])
def test_what_a_graph_says_to_its_nodes(num_real: int) -> None:
    rows, groups = torch.randn(3, 37), torch.tensor([0, 0, 1, 1, 2], dtype=torch.int32)
    count = torch.tensor([num_real], dtype=torch.int32)
    found = segments.spread_rows(rows.to(DEVICE), groups.to(DEVICE), count.to(DEVICE)).cpu()
    assert torch.equal(found[:num_real], rows[groups[:num_real].long()])
    assert not found[num_real:].any()
