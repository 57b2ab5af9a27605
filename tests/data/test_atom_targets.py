from __future__ import annotations

import pytest
import torch

from crawl.data import from_csv
from crawl.data.atom_targets import targets_of_atoms


def test_numbers_with_gaps():
    cells = ["[0.5, null, 2]", "[1.5]", "[1, 2]", "", "[0.1, word]", "[[1]]", "[null]", "3", '["x", 4.5]']
    task, y, problems = targets_of_atoms({"shift": cells}, [3, 1, 1, 2, 2, 1, 1, 1, 2])
    assert (task.kind, task.level, task.target_names) == ("regression", "node", ("shift",))
    assert y[:, 0].nan_to_num(-1).tolist() == [0.5, -1, 2, 1.5]
    assert problems == {
        2: "shift has 2 values, but the molecule 1 atoms (hydrogens, as [H], do not count)",
        3: "shift is missing",
        4: "shift is '[0.1, word]', not a list such as [0.1, 0.3]",
        5: "shift is '[[1]]', not a list of numbers or words",
        6: "no atom has a target",
        7: "shift is '3', not a list of numbers or words",
        8: "atom 0: shift is 'x', not a number",
    }


def test_an_atom_that_lacks_one_of_several_targets_counts_for_none():
    _, y, problems = targets_of_atoms({"a": ["[1.5, 2.5]", "[3]"], "b": ["[null, 4]", "[5.5]"]}, [2, 1])
    assert not problems
    assert y[0].isnan().all()
    assert y[1:].tolist() == [[2.5, 4], [3, 5.5]]


def test_classes_have_no_gaps():
    cells = ['["acid", "base", "none "]', '["base", null]', "[true, false]"]
    task, y, problems = targets_of_atoms({"site": cells[:2] * 2}, [3, 2, 3, 2], "multiclass")
    assert (task.kind, task.class_names) == ("multiclass", ("acid", "base", "none "))
    assert y.tolist() == [0, 1, 2, 0, 1, 2]
    assert problems == dict.fromkeys((1, 3), "atom 1 has no class")
    task, y, _ = targets_of_atoms({"site": cells[2:]}, [2])
    assert (task.kind, y.tolist()) == ("binary", [1, 0])


def test_no_row_has_any():
    with pytest.raises(ValueError, match="No row has targets that can be used"):
        targets_of_atoms({"a": ["", "x"]}, [1, 1])


def test_a_table(tmp_path):
    pytest.importorskip("rdkit")
    rows = [
        "CCO,'[1.5, 2, null]',2",
        "O,[3.25],1",
        "c1ccccc1,'[1,2,3,4,5,6]',1",
        "CC,'[1]',1",
        "[H]O[H],[7],1",
        "CN,'[1,2]',3",
    ]
    path = tmp_path / "atoms.csv"
    path.write_text("\n".join(["smiles,shift,weight", *(row.replace("'", '"') for row in rows)]))
    dataset = from_csv(path, target_columns="shift", level="atom", fractions=(0.6, 0.2, 0.2), weight_column="weight")
    assert dataset.task.level == "node"
    assert dataset.store.y_per_node
    assert dataset.store.y[:, 0].nan_to_num(-1).tolist() == [1.5, 2, -1, 3.25, 1, 2, 3, 4, 5, 6, 7, 1, 2]
    assert dataset.store.sample_weight.tolist() == [2, 2, 2, *[1] * 8, 3, 3]
    assert dataset.skipped == (
        "line 5: shift has 1 values, but the molecule 2 atoms (hydrogens, as [H], do not count)",
    )
    assert torch.equal(dataset.store.batch([1]).y, torch.tensor([[3.25]]))
    with pytest.raises(ValueError, match="needs one class for each graph"):
        from_csv(path, target_columns="shift", level="atom", split="stratified")
    with pytest.raises(ValueError, match="level must be one of molecule, atom, bond, not 'ring'"):
        from_csv(path, target_columns="shift", level="ring")


def test_bonds_of_a_table(tmp_path):
    pytest.importorskip("rdkit")
    rows = ["CCO,'[1.5, 2]',2", "O,[],1", "C1CC1,'[1,null,3]',1", "CC,'[1, 2]',1", "C=C,[7],3", "CN,[4],1"]
    path = tmp_path / "bonds.csv"
    path.write_text("\n".join(["smiles,length,weight", *(row.replace("'", '"') for row in rows)]))
    how = {"target_columns": "length", "fractions": (0.5, 0.25, 0.25), "weight_column": "weight"}
    dataset = from_csv(path, level="bond", **how)
    store = dataset.store
    assert (dataset.task.level, store.level) == ("pair", "pair")
    assert store.pairs.tolist() == [[0, 1], [1, 2], [0, 1], [1, 2], [2, 0], [0, 1], [0, 1]]
    assert store.y[:, 0].nan_to_num(-1).tolist() == [1.5, 2, 1, -1, 3, 7, 4]
    assert store.sample_weight.tolist() == [2, 2, 1, 1, 1, 3, 1]
    assert dataset.skipped == (
        "line 3: the molecule has no bonds",
        "line 5: length has 2 values, but the molecule 1 bonds (hydrogens, as [H], do not count)",
    )
    with pytest.raises(ValueError, match="from the molecule alone: leave out columns and descriptors"):
        from_csv(path, level="bond", descriptors=True, **how)
