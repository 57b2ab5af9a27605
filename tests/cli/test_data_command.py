"""`crawl data pack` and `check`, and what is trained on a packed store."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawl.data import open_packed
from tests.cli.conftest import MOLECULES, TINY

pytest.importorskip("rdkit")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "molecules.csv"
    path.write_text(MOLECULES)
    return path


def test_pack_check_train_and_predict(crawl, table, tmp_path):
    store = tmp_path / "store"
    done = crawl("data", "pack", table, "-o", store, "--targets", "logS", "--shard-size", "4")
    assert (done.code, done.out) == (0, "")
    assert f"1 rows are skipped; {store / 'skipped.txt'} says which" in done.err
    assert "11 graphs (9 for training, 1 for validation, 1 for the test)" in done.err
    assert (store / "skipped.txt").read_text().startswith("line 5: 'nonsense' is not a molecule")
    assert len(list(store.glob("shard-*"))) == 3
    done = crawl("data", "check", store)
    assert (done.code, done.out.startswith(f"{store}: 11 graphs")) == (0, True)
    run = tmp_path / "run"
    done = crawl("train", "packed", "--data.path", store, *TINY, "--out", run, "--quiet")
    assert (done.code, "skipped line 5" in done.err) == (0, True)
    done = crawl("predict", run, table, "-o", tmp_path / "out.csv")
    assert done.code == 0
    assert "12 rows, 1 without a prediction" in done.err


def test_what_is_refused(crawl, table, tmp_path):
    assert "say which columns to predict" in crawl.error("data", "pack", table, "-o", tmp_path / "store")
    assert "There is no file" in crawl.error("data", "pack", tmp_path / "no.csv", "-o", tmp_path / "store")
    assert "is not a packed store" in crawl.error("data", "check", tmp_path)
    crawl("data", "pack", table, "-o", tmp_path / "store", "--targets", "kind", "--metric", "macro_f1")
    assert open_packed(tmp_path / "store").task.metric == "macro_f1"
    shard = tmp_path / "store" / "shard-0.crawl"
    shard.write_bytes(shard.read_bytes()[:-1])
    error = crawl.error("train", "packed", "--data.path", tmp_path / "store", *TINY)
    assert "shard-0.crawl" in error
    assert "pack the data again" in error
    assert "cannot be changed by --data.split" in crawl.error("train", "packed", "--data.split", "random")


def test_a_store_never_replaces_its_table(crawl, table):
    before = table.read_text()
    assert str(table) in crawl.error("data", "pack", table, "-o", table, "--targets", "logS")
    assert table.read_text() == before
