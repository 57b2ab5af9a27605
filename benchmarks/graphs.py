"""The graphs of the benchmarks, made in code from fixed seeds."""

from __future__ import annotations

import random

import torch
from torch import Tensor
from torch_geometric.data import Data

NUM_ATOM_TYPES, NUM_BOND_TYPES = 21, 4  # of ZINC, as the paper counts them


def erdos_renyi(num_nodes: int, num_edges: int, seed: int = 0) -> Tensor:
    """`[2, num_edges]`: a random simple graph, both directions of each edge, in no particular order."""
    generator = torch.Generator().manual_seed(seed)
    num_pairs = num_edges // 2
    drawn = torch.randint(num_nodes, (2, num_pairs + num_pairs // 50 + 100), generator=generator)
    low, high = drawn.min(dim=0).values, drawn.max(dim=0).values
    pairs = torch.unique((low * num_nodes + high)[low < high])
    pairs = pairs[torch.randperm(pairs.numel(), generator=generator)[:num_pairs]]
    assert pairs.numel() == num_pairs
    ends = torch.stack([pairs // num_nodes, pairs % num_nodes])
    return torch.cat([ends, ends.flip(0)], dim=1)


def molecules(num_graphs: int, seed: int = 0) -> list[Data]:
    """Graphs with the shape of ZINC's molecules: about 23 nodes and 50 directed edges.

    They have three rings of five or six and degrees up to 3. Atom types, bond types and the target are random.
    """
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for _ in range(num_graphs):
        bonds = molecule_bonds(rng, num_atoms=rng.randint(20, 26), num_rings=3)
        pairs = torch.tensor(bonds).t()
        num_nodes = int(pairs.max()) + 1
        bond_type = torch.randint(NUM_BOND_TYPES, (len(bonds),), generator=generator)
        graphs.append(
            Data(
                x=torch.randint(NUM_ATOM_TYPES, (num_nodes, 1), generator=generator),
                edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
                edge_attr=torch.cat([bond_type, bond_type]).unsqueeze(1),
                y=torch.randn(1, generator=generator),
            )
        )
    return graphs


def molecule_bonds(rng: random.Random, num_atoms: int, num_rings: int) -> list[tuple[int, int]]:
    """The bonds of a random molecule, each once."""
    degree: list[int] = []
    bonds: list[tuple[int, int]] = []

    def bond(u: int, v: int) -> None:
        bonds.append((u, v))
        degree[u] += 1
        degree[v] += 1

    def grow(size: int) -> None:
        """Add a ring, or a single atom, bonded to an atom with room for it."""
        anchors = [atom for atom, bonded in enumerate(degree) if bonded < 3]
        first = len(degree)
        degree.extend([0] * size)
        for i in range(size if size > 1 else 0):
            bond(first + i, first + (i + 1) % size)
        if anchors:
            bond(rng.choice(anchors), first)

    for _ in range(num_rings):
        grow(rng.choice([5, 6]))
    while len(degree) < num_atoms:
        grow(1)
    return bonds
