"""Benchmarks in the files that their authors publish, which PyG and OGB read, too, and the addresses of these.

Some are pickles: they are read by `safe_pickle`, which runs nothing of them, not by PyG, which would.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crawl.data.benchmarks.packed import PARTS, Packed, load_arrays, naming, open_binary, split_in_order
from crawl.data.benchmarks.record import Form
from crawl.data.benchmarks.safe_pickle import load_pickle, load_torch
from crawl.data.splits import Split, stratified_folds
from crawl.data.store import GraphStore, as_ptr

_NUM_VALIDATION = 500  # nodes after those for training, in Planetoid's public splits


def zinc() -> Form:
    """ZINC's subset of 12,000 molecules: pickles of all molecules, and lists of those in the subset."""
    index = "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules"
    return Form(
        files=(*(f"{part}.pickle" for part in PARTS), *(f"{part}.index" for part in PARTS)),
        read=lambda *paths: _joined([_zinc(*pair) for pair in zip(paths[:3], paths[3:], strict=True)]),
        downloads=(
            "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1",
            *(f"{index}/{part}.index" for part in PARTS),
        ),
    )


def superpixels(name: str) -> Form:
    """MNIST or CIFAR10 as graphs of superpixels."""
    return Form(
        files=(f"{name}_v2.pt",),
        read=_superpixels,
        downloads=(f"https://data.pyg.org/datasets/benchmarking-gnns/{name}_v2.zip",),
    )


def peptides(name: str, place: str) -> Form:
    """The peptides of the long-range benchmark with their functions (`func`) or their shapes (`struct`)."""
    return Form(
        files=tuple(f"{part}.pt" for part in PARTS),
        read=lambda *paths: _joined([_peptides(path) for path in paths]),
        downloads=(f"https://www.dropbox.com/s/{place}/peptides{name}.zip?dl=1",),
    )


def pascalvoc() -> Form:
    """PASCALVOC-SP of the long-range benchmark."""
    return Form(
        files=tuple(f"{part}.pickle" for part in PARTS),
        read=lambda *paths: _joined([_pascalvoc(path) for path in paths]),
        downloads=("https://www.dropbox.com/s/8x722ai272wqwl4/pascalvocsp.zip?dl=1",),
    )


def tu(name: str) -> Form:
    """Graphs of the TU collection, divided into ten stratified folds that are always the same."""
    return Form(
        files=tuple(f"{name}_{what}.txt" for what in ("A", "graph_indicator", "graph_labels")),
        read=_tu,
        downloads=(f"https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip",),
    )


def molpcba() -> Form:
    """MOLPCBA of the Open Graph Benchmark, with its scaffold split."""
    tables = ("edge", "node-feat", "edge-feat", "num-node-list", "num-edge-list", "graph-label")
    parts = ("train", "valid", "test")
    return Form(
        files=(*(f"raw/{table}.csv.gz" for table in tables), *(f"split/scaffold/{part}.csv.gz" for part in parts)),
        read=_molpcba,
        downloads=("https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/pcba.zip",),
        sha256="0bb12da2f3ec8b0bb80564114a6174fad2df6a3a0d3c19470b3a27813a7d4e53",  # TensorFlow Datasets has it
    )


def heterophilous(name: str) -> Form:
    """A graph of the heterophilous benchmark (Platonov et al., ICLR 2023), with ten splits of its nodes."""
    return Form(
        files=(f"{name}.npz",),
        read=_heterophilous,
        downloads=(f"https://github.com/yandex-research/heterophilous-graphs/raw/main/data/{name}.npz",),
    )


def planetoid(name: str) -> Form:
    """A graph of papers with the public split of Planetoid (Yang et al., ICML 2016): pickles and a list of nodes."""
    # What is published in x is the beginning of allx.
    files = tuple(f"ind.{name}.{what}" for what in ("tx", "allx", "y", "ty", "ally", "graph", "test.index"))
    place = "https://github.com/kimiyoung/planetoid/raw/master/data"
    return Form(files=files, read=_planetoid, downloads=tuple(f"{place}/{file}" for file in files))


def one_graph(edges: Tensor, x: Tensor, y: Tensor, parts: Tensor) -> Packed:
    """One graph whose edges, `[E, 2]`, are listed once, with targets of its nodes.

    `parts` is that of `Packed`. Edges come out both ways, each once and sorted, without self-loops, as PyG has them.
    """
    ends, num_nodes = edges.t().long(), len(x)
    if bool((ends < 0).any()) or bool((ends >= num_nodes).any()):
        raise ValueError(f"an edge leads to a node that is not one of {num_nodes}")
    both = torch.cat([ends, ends.flip(0)], dim=1)
    keys = (both[0] * num_nodes + both[1])[both[0] != both[1]].unique()  # type: ignore[no-untyped-call]
    data = Data(x.float(), torch.stack([keys // num_nodes, keys % num_nodes]))
    return Packed(_store([data], [y.long()], y_per_node=True).checked(), parts=parts)


def parts_of(masks: Sequence[Tensor]) -> Tensor:
    """`[F, N]` the part of each node, from three masks `[F, N]`. Refuses masks that overlap."""
    train, val, test = (mask.bool() for mask in masks)
    if bool((train & val | train & test | val & test).any()):
        raise ValueError("a node is in two parts of a split")
    return train.long() + 2 * val.long() + 3 * test.long()


def _heterophilous(path: Path) -> Packed:
    arrays = load_arrays(path)
    with naming(path):
        x, y, edges = (torch.from_numpy(arrays[name]) for name in ("node_features", "node_labels", "edges"))
        masks = [torch.from_numpy(arrays[f"{part}_masks"]) for part in PARTS]
        return one_graph(edges, x, y, parts_of(masks))


def _planetoid(*paths: Path) -> Packed:
    tx, allx, y, ty, ally, graph = (load_pickle(path) for path in paths[:6])
    test = _numbers(paths[6]).flatten()
    with naming(paths[0]):
        features = torch.cat([torch.from_numpy(rows.dense()) for rows in (allx, tx)])
        labels = torch.cat([torch.from_numpy(np.asarray(rows)).argmax(dim=1) for rows in (ally, ty)])
        order = test.sort().values
        features[test], labels[test] = features[order], labels[order]
        pairs = [(node, other) for node, others in graph.items() for other in others]
        parts = torch.zeros(1, len(features), dtype=torch.long)
        parts[0, : len(y)], parts[0, len(y) : len(y) + _NUM_VALIDATION], parts[0, test] = 1, 2, 3
        return one_graph(torch.tensor(pairs), features, labels, parts)


def _zinc(molecules: Path, index: Path) -> GraphStore:
    with naming(index), open_binary(index) as file:
        chosen = [int(number) for number in file.read().decode().split(",")]
    found = load_pickle(molecules)
    with naming(molecules):
        graphs, y = [], []
        for molecule in (found[i] for i in chosen):
            bonds = molecule["bond_type"]
            edge_index = bonds.nonzero().t().contiguous()
            kinds = bonds[edge_index[0], edge_index[1]].long()
            graphs.append(Data(molecule["atom_type"].long().view(-1, 1), edge_index, kinds))
            y.append(molecule["logP_SA_cycle_normalized"].float().view(1))
        return _store(graphs, y)


def _superpixels(path: Path) -> Packed:
    parts = load_torch(path)
    with naming(path):
        train, val, test = ([graph["pos"] for graph in part] for part in parts)
        stores = []
        for part in parts:
            graphs = [Data(graph["x"], graph["edge_index"], graph["edge_attr"]) for graph in part]
            stores.append(_store(graphs, [graph["y"] for graph in part]))
        return _joined(stores, pos=torch.cat([*train, *val, *test]))


def _peptides(path: Path) -> GraphStore:
    found = load_torch(path)
    with naming(path):
        return _store([Data(x, edges, kinds) for x, kinds, edges, _ in found], [y for *_, y in found])


def _pascalvoc(path: Path) -> GraphStore:
    found = load_pickle(path)
    with naming(path):
        graphs = [Data(x.float(), edges, weights.float()) for x, weights, edges, _ in found]
        return _store(graphs, [torch.as_tensor(y).long() for *_, y in found], y_per_node=True)


def _tu(edges: Path, indicator: Path, labels: Path) -> Packed:
    ends, graph, label = (_numbers(path) for path in (edges, indicator, labels))
    with naming(edges):
        ends, graph = ends.t() - 1, graph.flatten() - 1
        num_nodes = len(graph)
        ends = ends[:, ends[0] != ends[1]]
        keys = (ends[0] * num_nodes + ends[1]).unique()  # type: ignore[no-untyped-call]
        ends = torch.stack([keys // num_nodes, keys % num_nodes])  # each edge once, as a matrix is read
        y = label.flatten().unique(return_inverse=True)[1]  # type: ignore[no-untyped-call]
        node_ptr = as_ptr(graph.bincount(minlength=len(y)))
        graph_of_edge = graph[ends[0]]
        store = GraphStore(
            node_ptr=node_ptr,
            edge_ptr=as_ptr(graph_of_edge.bincount(minlength=len(y))),
            edge_index=ends - node_ptr[graph_of_edge],
            y=y,
        ).checked()
        test_fold = torch.empty(len(store), dtype=torch.long)
        for fold, split in enumerate(stratified_folds(y)):
            test_fold[split.test] = fold
        return Packed(store, test_fold=test_fold)


def _molpcba(*paths: Path) -> Packed:
    edges, x, edge_attr, num_nodes, num_edges = (_numbers(path) for path in paths[:5])
    y = _numbers(paths[5], has_gaps=True)
    parts = [_numbers(path).flatten() for path in paths[6:]]
    with naming(paths[0]):
        both = torch.stack([edges, edges.flip(1)], dim=1).reshape(-1, 2).t().contiguous()  # each before its reverse
        store = GraphStore(
            node_ptr=as_ptr(num_nodes.flatten()),
            edge_ptr=as_ptr(2 * num_edges.flatten()),
            edge_index=both,
            x=x,
            edge_attr=edge_attr.repeat_interleave(2, dim=0),
            y=y,
        ).checked()
        return Packed(store, Split(*parts))


def _numbers(path: Path, has_gaps: bool = False) -> Tensor:
    """`[rows, columns]` the numbers of a table without a header: whole ones, or any with NaN for gaps."""
    with naming(path), warnings.catch_warnings(action="error"):  # that there is nothing in it
        if has_gaps:
            rows = np.loadtxt(path, np.float32, None, ",", lambda cell: float(cell or "nan"), ndmin=2, encoding="utf-8")
        else:
            rows = np.loadtxt(path, np.int64, None, ",", ndmin=2)
        return torch.from_numpy(rows)


def _store(graphs: Sequence[Data], y: Sequence[Any], y_per_node: bool = False) -> GraphStore:
    """The graphs with a row of targets for each, or for each of their nodes."""
    return replace(GraphStore.from_graphs(graphs), y=torch.cat(list(y)), y_per_node=y_per_node)


def _joined(stores: Sequence[GraphStore], pos: Tensor | None = None) -> Packed:
    return Packed(GraphStore.concatenate(stores), split_in_order([len(store) for store in stores]), pos=pos)
