from __future__ import annotations

import pytest

from crawl.runs.where import Where


def test_paths_become_absolute_and_stay_until_others_are_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = Where().moved("cpu", "train.csv", val_path="valid.csv", test_path="test.csv")
    assert where.path == str(tmp_path / "train.csv")
    assert where.moved() == where
    again = where.moved(test_path="other.csv")
    assert (again.val_path, again.test_path) == (where.val_path, str(tmp_path / "other.csv"))
    assert again.places == {key: value for key, value in vars(again).items() if key != "device"}


def test_three_files_may_move_into_a_folder(tmp_path):
    where = Where(path="/a/train.csv", val_path="/a/valid.csv", test_path="/a/test.csv")
    assert where.moved(path=tmp_path) == Where(path=str(tmp_path))
    assert where.moved(path=tmp_path / "train.csv").val_path == "/a/valid.csv"


def test_a_device_is_a_word():
    with pytest.raises(ValueError, match="device must be a str"):
        Where().moved(3)
