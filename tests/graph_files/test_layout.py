"""A graph file is mapped, not read; damage and forgery are found, whoever wrote it."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from crawl import Graph, build_graph_file, open_features, sample_walks
from crawl.graph_files import arrays as array_files
from crawl.graph_files import layout
from crawl.graph_files.arrays import Part, name_of

Parts = dict[str, np.ndarray[Any, Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    edge_index = torch.tensor([[0, 1, 2, 2, 4, 0], [1, 2, 0, 3, 4, 1]])
    weight = torch.arange(1.0, 7.0)
    file = tmp_path / "graph.crawl"
    build_graph_file(edge_index, file, edge_weight=weight, num_nodes=6, undirected=True, features=torch.rand(6, 3))
    return file


def test_it_is_a_safetensors_file(path: Path) -> None:
    arrays, graph = load_file(path), Graph.open(path)
    assert sorted(arrays) == ["col", "cum_weight", "edge_id", "rowptr", "x"]
    for name in ("rowptr", "col", "edge_id", "cum_weight"):
        assert torch.equal(torch.from_numpy(arrays[name]), getattr(graph, name))
    assert torch.equal(torch.from_numpy(arrays["x"]), open_features(path))


def test_arrays_are_mapped_aligned_and_private(path: Path) -> None:
    before = path.read_bytes()
    graph = Graph.open(path)
    assert graph.cum_weight is not None
    for tensor in (graph.rowptr, graph.col, graph.edge_id, graph.cum_weight):
        assert tensor.data_ptr() % tensor.element_size() == 0
        tensor[0] = 77
    assert path.read_bytes() == before
    assert graph.batch.untyped_storage().nbytes() == 4  # a zero for all nodes
    assert graph.to("cpu").col[0] == 77


def test_a_file_of_more_than_two_to_the_31_arcs(tmp_path: Path) -> None:
    """Two hubs with 2^30 arcs each, never visited, before a cycle; only pages of the cycle are stored."""
    hub, length = 2**30 + 50, 9
    rowptr = np.array([0, hub, *(2 * hub + np.arange(0, 2 * length + 1, 2))])
    cycle = small_cycle(length)
    sizes = {"rowptr": ("I64", len(rowptr)), "col": ("I32", int(rowptr[-1])), "edge_id": ("I32", int(rowptr[-1]))}
    parts = {name: Part(dtype, (size,), 0, ()) for name, (dtype, size) in sizes.items()}
    path = tmp_path / "huge.crawl"
    with path.open("wb") as file:
        file.write(layout.header_of(parts, 2 * hub + length))
        file.write(rowptr.tobytes())
        for values in (cycle.col + 2, cycle.edge_id):
            file.seek(2 * hub * 4, 1)
            file.write(values.numpy().tobytes())
    assert path.stat().st_blocks * 512 < 2**20 < path.stat().st_size
    graph = Graph.open(path, verify=False)
    assert (graph.num_arcs, graph.rowptr.dtype) == (2 * hub + 2 * length, torch.int64)
    start = torch.arange(length)
    expected = sample_walks(cycle, 20, start=start, keys=start)
    for backend in ("numba", "reference"):
        walks = sample_walks(graph, 20, start=start + 2, keys=start, backend=backend)  # type: ignore[arg-type]
        assert torch.equal(walks.nodes, expected.nodes + 2)
        assert torch.equal(walks.edges, expected.edges)
        assert torch.equal(walks.code, expected.code)


def small_cycle(size: int) -> Graph:
    return Graph.from_edge_index(torch.stack([torch.arange(size), (torch.arange(size) + 1) % size]), undirected=True)


def test_a_new_file_in_its_place_does_not_change_an_open_graph(path: Path) -> None:
    graph = Graph.open(path)
    walks = sample_walks(graph)
    build_graph_file(torch.tensor([[0, 1], [1, 0]]), path)
    assert torch.equal(sample_walks(graph).nodes, walks.nodes)
    assert Graph.open(path).num_nodes == 2


def test_every_truncation_and_every_changed_byte_is_found(path: Path) -> None:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    problem = rf"^{re.escape(str(path))} is not a graph file, or was damaged \(.+\): build it again\.$"
    for end in (0, 4, 8, 100, 8 + length, len(content) - 1):
        path.write_bytes(content[:end])
        for verify in (True, False):
            with pytest.raises(ValueError, match=problem):
                Graph.open(path, verify=verify)
    path.write_bytes(content + b"\0")
    with pytest.raises(ValueError, match=problem):
        Graph.open(path, verify=False)
    blanks = len(content[8 : 8 + length]) - len(content[8 : 8 + length].rstrip())  # padding may be any white space
    for place in range(len(content)):
        if 8 + length - blanks <= place < 8 + length:
            continue
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=problem):
            Graph.open(path)


def written(path: Path, arrays: Parts, num_edges: int = 6) -> None:
    """A file whose checksums are right."""
    parts = {
        name: Part(str(name_of(a.dtype)), a.shape, zlib.crc32(a.tobytes()), (np.ascontiguousarray(a),))
        for name, a in arrays.items()
    }
    with path.open("wb") as file:
        layout.write(file, parts, num_edges)


def _set(name: str, place: int, value: int) -> Callable[[Parts], None]:
    def change(arrays: Parts) -> None:
        arrays[name][place] = value

    return change


@pytest.mark.parametrize("at_once", [2, 2**22])
@pytest.mark.parametrize(
    "change",
    [
        _set("rowptr", 0, 1),
        _set("rowptr", -1, 9),
        _set("rowptr", 2, 0),
        _set("rowptr", 2, 2**30),
        _set("col", 3, -1),
        _set("col", 3, 6),
        _set("col", -1, 5),  # node 5 is isolated, so a walk would end there
        _set("col", 1, 0),  # rows ascend
        _set("edge_id", 0, -1),
        _set("edge_id", 0, 6),
        _set("cum_weight", 0, 0),
        _set("cum_weight", 1, 2**31),
        _set("cum_weight", 1, 1),
        lambda arrays: arrays.pop("col"),
        lambda arrays: arrays.update(col=arrays["col"][1:]),
        lambda arrays: arrays.update(col=arrays["col"].astype(np.int64)),
        lambda arrays: arrays.update(edge_id=arrays["edge_id"].astype(np.float32)),
        lambda arrays: arrays.update(x=arrays["x"][1:]),
        lambda arrays: arrays.update(x=arrays["x"][:, 0]),
        lambda arrays: arrays.update(more=arrays["col"]),
        lambda arrays: arrays.update(rowptr=arrays["rowptr"][:0]),
    ],
)
def test_forged_files_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Parts], None], at_once: int
) -> None:
    monkeypatch.setattr(array_files, "_AT_ONCE", at_once)
    arrays = load_file(path)
    written(path, arrays)
    Graph.open(path)
    change(arrays)
    written(path, arrays)
    with pytest.raises(ValueError, match="is not a graph file, or was damaged"):
        Graph.open(path)


@pytest.mark.parametrize(
    "header",
    ["", "[]", "{}", "null", '{"__metadata__": 3}', '{"__metadata__": {"format": "crawl graph 1"}}', "[" * 10**4],
)
def test_other_headers_are_refused(path: Path, header: str) -> None:
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(100))
    with pytest.raises(ValueError, match="is not a graph file, or was damaged"):
        Graph.open(path)


@pytest.mark.parametrize("value", ["x", "-1", "1e3", None, 6, "9" * 5000])
def test_numbers_of_edges_that_are_none(path: Path, value: Any) -> None:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"]["num_edges"] = value
    header["__metadata__"]["crc32.header"] = array_files.header_crc(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    with pytest.raises(ValueError, match="is not a graph file, or was damaged"):
        Graph.open(path)


def test_what_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        Graph.open(tmp_path / "nope.crawl")
    with pytest.raises(ValueError, match="is not a file"):
        Graph.open(tmp_path)
    with pytest.raises(ValueError, match="path must be a path"):
        Graph.open(3)  # type: ignore[arg-type]
