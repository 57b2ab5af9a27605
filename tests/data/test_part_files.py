from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import pytest

pytest.importorskip("rdkit")

from crawl.data import Fingerprint, from_csv, random_split

TRAIN = ["C", "CC", "CCC", "CCO", "CCN", "c1ccccc1"]
VALID = ["CCCC", "CCCO"]
TEST = ["CCCCC", "OC1CCCCC1", "O"]


def write(path: Path, smiles: list[str], header: str = "smiles,y", first: int = 0) -> Path:
    path.write_text("\n".join([header, *(f"{each},{first + i}.5" for i, each in enumerate(smiles))]) + "\n")
    return path


@pytest.fixture
def three(tmp_path):
    """Three files in a folder, by their parts."""
    parts = {"train": TRAIN, "valid": VALID, "test": TEST}
    return [write(tmp_path / f"{part}.csv", smiles, first=10 * i) for i, (part, smiles) in enumerate(parts.items())]


def test_the_split_is_by_file(three):
    train, valid, test = three
    dataset = from_csv(train, val_path=valid, test_path=test)
    assert dataset.name == train.parent.name
    assert dataset.graph_names == (*TRAIN, *VALID, *TEST)
    split = dataset.split
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9, 10]]
    assert dataset.store.y[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 10.5, 11.5, 20.5, 21.5, 22.5]
    in_folder = from_csv(train.parent, split="files")
    assert not Fingerprint.of(dataset).changes_to(Fingerprint.of(in_folder))


def test_names_in_a_folder(three):
    train, valid, _ = three
    train.with_suffix(".csv.gz").write_bytes(gzip.compress(train.read_bytes()))
    with pytest.raises(ValueError, match=r"has both train\.csv and train\.csv\.gz"):
        from_csv(train.parent)
    train.unlink()
    valid.rename(valid.with_name("val.csv"))
    assert len(from_csv(train.parent)) == 11
    valid.with_name("val.csv").unlink()
    with pytest.raises(ValueError, match=r"has no valid\.csv or val\.csv: it needs one file"):
        from_csv(train.parent)


def test_columns_in_another_order_and_one_vocabulary(three):
    train, valid, test = three
    train.write_text("smiles,kind\nC,a\nCC,b\nCCC,a\n")
    valid.write_text("kind,smiles\nc,CCCC\na,CCO\n")
    test.write_text("kind;smiles\nb;CCCCC\n")
    dataset = from_csv(train, val_path=valid, test_path=test)
    assert dataset.task.class_names == ("a", "b", "c")
    assert dataset.store.y.tolist() == [0, 1, 0, 2, 0, 1]


def test_molecules_in_two_files_are_counted(three):
    train, valid, test = three
    write(valid, ["OCC", "CCCO"])  # CCO in training, written another way
    write(test, ["C(C)C", "CCC", "O"], first=20)  # twice what is in training
    with pytest.warns(UserWarning, match=r"2 molecules are in more than one file \(2 rows of .*train\.csv, 1 rows of"):
        from_csv(train, val_path=valid, test_path=test)
    write(valid, ["CCCC", "CCCC"])  # within one file that is fine
    write(test, ["O", "OO"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_csv(train, val_path=valid, test_path=test)


def test_rows_that_cannot_be_used_name_their_file(three):
    train, valid, test = three
    write(valid, ["CCCC", "nonsense", "CCCO"])
    dataset = from_csv(train, val_path=valid, test_path=test)
    assert dataset.split.val.tolist() == [6, 7]
    assert dataset.split.test.tolist() == [8, 9, 10]
    assert dataset.skipped[0].startswith(f"{valid}, line 3: 'nonsense' is not a molecule")
    write(valid, ["nonsense"])
    with pytest.raises(ValueError, match=r"No row of .*valid\.csv, the validation file, can be used"):
        from_csv(train, val_path=valid, test_path=test)


def test_files_that_do_not_go_together(three, tmp_path):
    train, valid, test = three
    with pytest.raises(ValueError, match=r"--data\.test-path \(in Python test_path=…\) is missing"):
        from_csv(train, val_path=valid)
    with pytest.raises(ValueError, match="path and test_path are the same file"):
        from_csv(train, val_path=valid, test_path=tmp_path / "." / "train.csv")
    with pytest.raises(ValueError, match=r"There is no file .*nowhere\.csv \(test_path\)"):
        from_csv(train, val_path=valid, test_path=tmp_path / "nowhere.csv")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "pack.json").touch()
    with pytest.raises(ValueError, match=r"store is a packed store: train with crawl train packed"):
        from_csv(tmp_path / "store")
    with pytest.raises(ValueError, match="is a folder, which has all three files: leave out val_path"):
        from_csv(tmp_path, val_path=valid)
    for name, value in (("split", "random"), ("split", random_split(11)), ("fractions", (0.8, 0.1, 0.1))):
        with pytest.raises(ValueError, match=f"{name}=.* cannot change the split, which three files give"):
            from_csv(train, val_path=valid, test_path=test, **{name: value})
    with pytest.raises(ValueError, match="split='files' needs three files"):
        from_csv(train, split="files")
    with pytest.raises(ValueError, match="val_path must be a path"):
        from_csv(train, val_path=3, test_path=test)
    test.write_text("smiles,z\nC,1.5\n")
    with pytest.raises(ValueError, match=r"test\.csv has no column 'y', which .*train\.csv has"):
        from_csv(train, val_path=valid, test_path=test)
    test.write_text("smiles,y,z\nC,1.5,2\n")
    with pytest.raises(ValueError, match=r"train\.csv has no column 'z', which .*test\.csv has"):
        from_csv(train, val_path=valid, test_path=test)
    test.write_text("smiles,y\n")
    with pytest.raises(ValueError, match=r"test\.csv has a header but no rows"):
        from_csv(train, val_path=valid, test_path=test)
    test.write_text("")
    with pytest.raises(ValueError, match=r"test\.csv is empty"):
        from_csv(train, val_path=valid, test_path=test)
