"""Which columns of a table of nodes are the label and the split; reading them is tested with the folders."""

from __future__ import annotations

import pytest

from crawl.data.node_labels import LabelChoice
from crawl.data.table import Table


@pytest.fixture
def table(tmp_path) -> Table:
    rows = ("0,a,train,test", "1,b,train,train", "2,,val,val", "3,a,test,val", "4,b,val,val")
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label,split,fold", *rows]) + "\n")
    return Table(tmp_path / "nodes.csv")


def labelled(table: Table, **settings):
    rows = list(table)
    return (
        LabelChoice(**settings).of(table).labelled(lambda name: [r.cells[name] for r in rows], [r.line for r in rows])
    )


def test_columns_that_are_not_features(table):
    assert LabelChoice().of(table).columns == {"id", "label", "split"}
    assert LabelChoice(split="fold").of(table).columns == {"id", "label", "split", "fold"}
    assert LabelChoice(split="random").of(table).split_column is None


def test_rows_without_a_label_are_told_if_they_have_a_part(table):
    found = labelled(table)
    assert (found.places, found.y.tolist(), found.task.level) == ([0, 1, 3, 4], [0, 1, 0, 1], "node")
    assert found.skipped == ("line 4: its split is val, but its label is missing",)
    (table.path.parent / "rows.json").write_text('{"train": [0, 1], "val": [3], "test": [4]}')
    drawn = labelled(table, split=table.path.parent / "rows.json")
    assert (drawn.skipped, drawn.split.val.tolist()) == ((), [2])


def test_words_that_are_read_as_missing_are_told(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("id,label\n0,a\n1,none\n2,b\n3,\n4,a\n5,b\n6,?\n7,a\n8,b\n9,a\n")
    word = "is read so: a class needs another name)"
    expected = (f"line 3: its label is missing ('none' {word}", f"line 8: its label is missing ('?' {word}")
    assert labelled(Table(path)).skipped == expected
    path.write_text("id,label,split\n0,a,train\n1,none,train\n2,b,train\n3,NA,\n4,a,val\n5,b,test\n")
    first, second = labelled(Table(path)).skipped
    assert first == f"line 3: its split is train, but its label is missing ('none' {word}"
    assert second == f"line 5: its label is missing ('NA' {word}"


def test_a_labelled_node_without_a_part_is_refused_by_line(table):
    table.path.write_text(table.path.read_text().replace("4,b,val", "4,b,"))
    problem = r"nodes\.csv, line 6: its label is b, but its split is empty: write train, val or test there, or empty"
    with pytest.raises(ValueError, match=problem):
        labelled(table)


def test_choices_that_contradict_each_other(table):
    with pytest.raises(ValueError, match="cannot be the label, too"):
        LabelChoice(label="split").of(table)
    with pytest.raises(ValueError, match="cannot change the split in the column 'fold': leave it out"):
        LabelChoice(split="fold", fractions=(0.5, 0.25, 0.25)).of(table)
    with pytest.raises(ValueError, match=r"nodes\.csv, line 2: No target of class a is in the training"):
        labelled(table, split="fold")
    with pytest.raises(ValueError, match=r"neither a way to split, a column nor a file\. Did you mean"):
        labelled(table, split="folds")


def test_numbers_below_0_are_not_classes(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("id,label\n0,1\n1,-1\n2,0\n3,1\n4,1\n5,0\n6,-1\n")
    with pytest.raises(ValueError, match=r"line 3: label is -1, and classes are words, or numbers from 0: leave the"):
        labelled(Table(path), split="random")
    assert labelled(Table(path), split="random", task="regression").task.kind == "regression"
