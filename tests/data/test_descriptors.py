from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rdkit")

from rdkit import Chem

from crawl.data import descriptors as module
from crawl.data import from_csv
from crawl.data.descriptors import DESCRIPTORS, descriptors_of


def test_they_are_those_of_rdkit():
    found = descriptors_of(["CCO", Chem.MolFromSmiles("c1ccccc1")], ["MolWt", "RingCount"])
    assert found.tolist() == [[pytest.approx(46.069), 0], [pytest.approx(78.114), 1]]
    assert len(DESCRIPTORS) > 150
    assert descriptors_of([], ["MolWt"]).shape == (0, 1)


def test_failures_are_missing(monkeypatch):
    def fails(_: Chem.Mol) -> float:
        raise RuntimeError("no charge")

    monkeypatch.setitem(module._FUNCTIONS, "Fails", fails)
    monkeypatch.setitem(module._FUNCTIONS, "Infinite", lambda _: float("inf"))
    assert np.isnan(descriptors_of(["C"], ["Fails", "Infinite"])).all()
    with pytest.raises(ValueError, match=r"no descriptor 'MolWeight'\. Did you mean"):
        descriptors_of(["C"], ["MolWeight"])
    with pytest.raises(ValueError, match="'nonsense' is not a molecule"):
        descriptors_of(["nonsense"], ["MolWt"])


def test_in_a_table_beside_columns(tmp_path):
    smiles = ["C", "CC", "CCC", "CCO", "CCN", "c1ccccc1", "Cc1ccccc1", "C1CCCCC1", "OC1CCCCC1", "O"]
    rows = [f"{each},{i}.5,{280 + i % 3},{'ab'[i % 2]}" for i, each in enumerate(smiles)]
    path = tmp_path / "molecules.csv"
    path.write_text("\n".join(["smiles,y,T,phase", *rows]))
    dataset = from_csv(path, target_columns="y", feature_columns=["T", "phase"], descriptors=True)
    columns = dataset.columns
    assert [column.name for column in columns.graphs] == ["T", "phase"]
    assert "MolWt" in columns.descriptors
    assert "NumRadicalElectrons" not in columns.descriptors  # 0 everywhere
    u = dataset.store.u
    assert u.shape == (10, 1 + 2 + len(columns.descriptors))
    assert u[:, 0].tolist() == [280 + i % 3 for i in range(10)]
    assert u[:, 1].tolist() == [float(i % 2 == 0) for i in range(10)]
    assert u[:, 3 + columns.descriptors.index("MolWt")][3] == pytest.approx(46.069)
    assert from_csv(path, target_columns="y", feature_columns="T").store.u.shape == (10, 1)
    assert dataset.task.target_names == from_csv(path, feature_columns=["T", "phase"]).task.target_names
    with pytest.raises(ValueError, match=r"Column 'y' of .* cannot be a target, too"):
        from_csv(path, target_columns="y", feature_columns=["y"])
    path.write_text("\n".join(["smiles,y,T", *(f"C,{i},280" for i in range(10))]))
    with pytest.raises(ValueError, match=r"Column 'T' is 280\.0 in every training row"):
        from_csv(path, target_columns="y", feature_columns=["T"])
    with pytest.raises(ValueError, match="No descriptor differs between the training molecules"):
        from_csv(path, target_columns="y", descriptors=True)
