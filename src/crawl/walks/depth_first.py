"""Depth-first searches in plain torch: the specification that every other sampler equals bit for bit."""

from __future__ import annotations

import torch
from torch import Tensor

from crawl.walks.arcs import SortedArcs, scaled
from crawl.walks.philox import step_word


class DepthFirst:
    """Depth-first searches, one for each walk.

    A step takes an arc to a node that the search has not seen. If there is none, it goes back to the parent, from which
    the search found the current node. At the root, and where no arc leads back, a new search begins: it has seen the
    current node alone. If all arcs are self-loops, it takes any of them.
    """

    def __init__(self, arcs: SortedArcs, start: Tensor, keys: Tensor, seed: int) -> None:
        self.arcs, self.keys, self.seed = arcs, keys, seed
        # [W, T] nodes in the order in which they were found; -1 where a step found none
        self.seen = start.unsqueeze(1).clone()
        self.parent = torch.full_like(self.seen, -1)  # of each of them; -1 for a root

    def next_arc(self, visited: list[Tensor], step: int) -> Tensor:
        """The arc that each search takes from the current node."""
        here, word = visited[-1], step_word(self.seed, step, self.keys)
        total = self.arcs.total(here)
        before, skipped = self._masses(here, self.seen)
        parent = torch.where(self.seen == here.unsqueeze(1), self.parent, -1).amax(1, keepdim=True)
        before_back, back = (mass.squeeze(1) for mass in self._masses(here, parent))
        is_stuck = skipped.sum(1) == total
        goes_back, begins = is_stuck & (back > 0), is_stuck & (back == 0)
        if bool(begins.any()):
            self.seen[begins] = self.parent[begins] = -1
            self.seen[begins, -1] = here[begins]
            before, skipped = self._masses(here, self.seen)
            skipped[begins & (skipped.sum(1) == total)] = 0
        free = total - skipped.sum(1)
        mass = scaled(word, torch.where(goes_back, back, free))
        for k in before.argsort(dim=1).unbind(1):
            k = k.unsqueeze(1)
            is_before = before.gather(1, k).squeeze(1) <= mass
            mass = mass + torch.where(is_before & ~goes_back, skipped.gather(1, k).squeeze(1), 0)
        arc = self.arcs.at(here, torch.where(goes_back, before_back + mass, mass))
        target = self.arcs.graph.col[arc].long()
        is_new = (self.seen != target.unsqueeze(1)).all(1)
        self.seen = torch.cat([self.seen, torch.where(is_new, target, -1).unsqueeze(1)], dim=1)
        self.parent = torch.cat([self.parent, torch.where(is_new, here, -1).unsqueeze(1)], dim=1)
        return arc

    def _masses(self, here: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """`[W, T]` the masses of the arcs before those that lead from here to a target, and of these; 0 for -1."""
        here = here.unsqueeze(1)
        first, last = self.arcs.between(here, targets.clamp_min(0))
        before = self.arcs.mass_before(here, first)
        return before, torch.where(targets >= 0, self.arcs.mass_before(here, last) - before, 0)
