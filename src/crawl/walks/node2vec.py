"""node2vec's second-order steps in plain torch: drawn by odds in integers, and drawn again until one is kept."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from crawl.checks import check_node2vec
from crawl.walks.arcs import SortedArcs, scaled
from crawl.walks.philox import FIRST_ATTEMPT, philox


def node2vec_odds(p: float, q: float) -> tuple[int, int, int, int]:
    """Four integers (back, ahead, common, other) for the parameters p and q.

    The odds to go back rather than ahead are `back` times the mass of the arcs to the previous node, to `ahead` times
    the mass of the others. An arc ahead is kept with the chance `common` / 2^32 if it leads to a neighbour of the
    previous node, and with `other` / 2^32 if it does not; if it is not kept, all is drawn again.
    """
    check_node2vec(p, q)
    back, ahead = 1 / min(p, 1e300), max(1.0, 1 / q)  # p may be an integer that is too long for a float
    most = max(back, ahead)
    chances = (back / most, ahead / most, 1 / ahead, 1 / q / ahead)
    back_odds, ahead_odds, common, other = (math.floor(chance * 2**32) for chance in chances)
    return back_odds, ahead_odds, common, other


def draw_node2vec_arc(
    arcs: SortedArcs, visited: list[Tensor], masses: tuple[Tensor, ...], keys: Tensor, law: tuple[int, ...], seed: int
) -> Tensor:
    """Draw until an arc is kept. `masses`: of the arcs before those that lead back, of these, and of all others."""
    back_odds, ahead_odds, common, other = law
    here, previous = visited[-1], visited[-2]
    chosen = torch.full_like(here, -1)
    pending = torch.arange(here.numel(), device=here.device)
    attempt = FIRST_ATTEMPT
    while pending.numel():
        before, back, ahead = (mass[pending] for mass in masses)
        words = philox(seed, len(visited) - 1, attempt, keys[pending])
        goes_back = scaled(words[0], back * back_odds + ahead * ahead_odds) < back * back_odds
        goes_back |= ahead == 0
        mass = scaled(words[1], torch.where(goes_back, back, ahead))
        mass += torch.where(goes_back, before, torch.where(mass >= before, back, 0))
        arc = arcs.at(here[pending], mass)
        first, last = arcs.between(previous[pending], arcs.graph.col[arc].long())
        is_kept = goes_back | (words[2] < torch.where(first < last, common, other))
        chosen[pending[is_kept]] = arc[is_kept]
        pending, attempt = pending[~is_kept], attempt + 1
    return chosen
