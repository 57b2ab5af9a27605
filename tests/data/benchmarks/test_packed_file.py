import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from crawl.data import GraphStore, Split
from crawl.data.benchmarks.packed import Packed, load_packed, save_packed, with_categories


def make() -> Packed:
    store = GraphStore(
        node_ptr=torch.tensor([0, 3, 3, 5]),
        edge_ptr=torch.tensor([0, 4, 4, 6]),
        edge_index=torch.tensor([[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 1, 0]]),
        x=torch.tensor([[7, 0], [9, 0], [7, 1], [300, 0], [7, 0]]),
        edge_attr=torch.tensor([1, 1, 3, 3, 1, 1]),
        y=torch.tensor([[0.5], [1.5], [float("nan")]]),
    )
    return Packed(store, Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2])))


def test_categories_are_ranks_and_fill_the_published_width():
    packed = with_categories(make(), (8, 2))
    assert packed.store.x.tolist() == [[0, 0], [1, 0], [0, 1], [2, 0], [0, 0]]
    assert packed.node_categories == (6, 2)  # three values occur in the first column, and three more never do
    assert packed.store.edge_attr.flatten().tolist() == [0, 0, 1, 1, 0, 0]
    assert packed.edge_categories == (2,)
    assert with_categories(make(), (1, 1)).node_categories == (3, 2)


def test_numbers_are_no_categories():
    packed = make()
    packed = with_categories(replace(packed, store=replace(packed.store, x=torch.rand(5, 2), edge_attr=None)), (9, 9))
    assert (packed.node_categories, packed.edge_categories) == ((), ())


def test_a_file_holds_everything(tmp_path):
    packed = with_categories(make(), (8, 4))
    save_packed(tmp_path / "new" / "set.npz", packed)
    again = load_packed(tmp_path / "new" / "set.npz")
    for name in ("node_ptr", "edge_ptr", "edge_index", "x", "edge_attr"):
        assert torch.equal(getattr(again.store, name), getattr(packed.store, name))
        assert getattr(again.store, name).dtype == torch.int64
    assert torch.equal(again.store.y.nan_to_num(-1), packed.store.y.nan_to_num(-1))
    assert again.split.to_json() == packed.split.to_json()
    assert (again.node_categories, again.edge_categories) == (packed.node_categories, packed.edge_categories)
    assert (again.origin, again.test_fold, again.pos) == ("published", None, None)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["set.npz"]


def test_nothing_in_it_is_pickled(tmp_path):
    save_packed(tmp_path / "set.npz", make())
    with np.load(tmp_path / "set.npz", allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
        assert json.loads(file["description"].tobytes())["format"] == "crawl-graphs-1"


def test_rebuilt_superpixels_are_kept_without_edges_and_get_them_again(tmp_path):
    from crawl.data.benchmarks.neighbours import nearest_neighbours

    generator = torch.Generator().manual_seed(0)
    x, pos = (torch.rand(24, width, generator=generator).half().float() for width in (1, 2))
    node_ptr = torch.tensor([0, 10, 24])
    num_edges, edge_index, edge_attr = nearest_neighbours(node_ptr, x, pos)
    edge_ptr = torch.tensor([0, *num_edges.cumsum(0).tolist()])
    store = GraphStore(node_ptr, edge_ptr, edge_index, x, edge_attr, torch.tensor([0, 1]))
    save_packed(tmp_path / "set.npz", Packed(store, test_fold=torch.tensor([0, 1]), pos=pos, origin="rebuilt"))
    with np.load(tmp_path / "set.npz") as file:
        assert "edge_index" not in file.files
    again = load_packed(tmp_path / "set.npz")
    assert torch.equal(again.store.edge_index, edge_index)
    assert torch.equal(again.store.edge_attr, edge_attr)
    assert torch.equal(again.pos, pos)


@pytest.mark.parametrize("damage", ["truncated", "text", "other"])
def test_damaged_files_are_refused_by_name(tmp_path, damage):
    path = tmp_path / "set.npz"
    save_packed(path, make())
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "text":
        path.write_text("no graphs")
    else:
        np.savez(path, a=np.arange(3))
    with pytest.raises(ValueError, match=r"set\.npz [^\n]*again\.$"):
        load_packed(path)


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "set.npz"
    save_packed(path, make())
    before = path.read_bytes()

    def full(_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_packed(path, make())
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["set.npz"]
