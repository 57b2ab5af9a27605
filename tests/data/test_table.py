import gzip
import os

import pytest

from crawl.data.table import Row, Table, number_in


def write(tmp_path, text, name="table.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def test_rows(tmp_path):
    table = Table(write(tmp_path, "smiles,y\nCC, 1.5 \n\nO,2\n"))
    assert table.columns == ("smiles", "y")
    assert list(table) == [Row(2, {"smiles": "CC", "y": "1.5"}), Row(4, {"smiles": "O", "y": "2"})]
    assert list(table) == list(table)


@pytest.mark.parametrize(
    "text",
    [
        "smiles,y\r\nCC,1\r\nO,2\r\n",  # Windows
        "smiles,y\rCC,1\rO,2\r",  # an old Mac
        "\ufeffsmiles,y\nCC,1\nO,2",  # a byte order mark, no line end
        '"smiles","y"\n"CC","1"\n"O","2"\n',
        " smiles , y \nCC,1\nO,2\n",
        "smiles\ty\nCC\t1\nO\t2\n",
        "smiles;y\nCC;1\nO;2\n",
    ],
)
def test_dialects(tmp_path, text):
    rows = [row.cells for row in Table(write(tmp_path, text))]
    assert rows == [{"smiles": "CC", "y": "1"}, {"smiles": "O", "y": "2"}]


def test_a_column_without_a_name_gets_one(tmp_path):
    table = Table(write(tmp_path, ",smiles,,y\n0,CC,a,1.5\n"))  # as pandas writes its index
    assert table.columns == ("Unnamed: 0", "smiles", "Unnamed: 2", "y")
    assert [row.cells for row in table] == [{"Unnamed: 0": "0", "smiles": "CC", "Unnamed: 2": "a", "y": "1.5"}]
    with pytest.raises(ValueError, match=r"no column 'z'\. There are: Unnamed: 0, smiles, Unnamed: 2, y\."):
        table.check_column("z")


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (",Unnamed: 0,smiles", ("Unnamed: 0.1", "Unnamed: 0", "smiles")),  # a pandas index that was saved twice
        (",Unnamed: 0.1,Unnamed: 0,y", ("Unnamed: 0.2", "Unnamed: 0.1", "Unnamed: 0", "y")),
        ("a,b,a,a", ("a", "b", "a.1", "a.2")),
        ("a,a.1,a", ("a", "a.1", "a.2")),
    ],
)
def test_every_column_has_a_name_of_its_own(tmp_path, header, columns):
    cells = [str(i) for i in range(len(columns))]
    table = Table(write(tmp_path, f"{header}\n{','.join(cells)}\n"))
    assert table.columns == columns
    assert [row.cells for row in table] == [dict(zip(columns, cells, strict=True))]


def test_a_name_of_two_columns_is_refused_when_it_is_needed(tmp_path):
    table = Table(write(tmp_path, "a,b,a\n1,2,3\n"))
    table.check_column("b")
    table.check_column("a.1")
    with pytest.raises(ValueError, match=r"table\.csv: columns 1 and 3 are both called 'a'; rename one"):
        table.check_column("a")


def test_quoted_separators_and_line_breaks(tmp_path):
    table = Table(write(tmp_path, 'name,y\n"a, ""b""",1\n"two\nlines",2\nlast,3\n'))
    assert [(row.line, row.cells["name"]) for row in table] == [(2, 'a, "b"'), (3, "two\nlines"), (5, "last")]


@pytest.mark.parametrize("name", ["table.csv.gz", "table.csv"])
def test_gzip_is_known_by_its_content(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"smiles,y\nCC,1\n"))
    assert [row.cells["y"] for row in Table(path)] == ["1"]
    assert Table(path).name == "table"


def test_rows_with_too_few_or_too_many_fields(tmp_path):
    short, long = Table(write(tmp_path, "a,b\n1\n1,2,3\n"))
    assert short == Row(2, {"a": "1", "b": ""}, "it has 1 fields, but the header 2")
    assert long == Row(3, {"a": "1", "b": "2"}, "it has 3 fields, but the header 2")


def test_check_column(tmp_path):
    table = Table(write(tmp_path, "SMILES,solubility\n"))
    table.check_column("SMILES")
    with pytest.raises(ValueError, match=r"no column 'smiles'\. Did you mean 'SMILES'"):
        table.check_column("smiles")
    with pytest.raises(ValueError, match=r"no column 'x'\. There are: SMILES, solubility"):
        table.check_column("x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        ("größe\n1\n".encode("latin-1"), "not text in UTF-8"),
        (gzip.compress(b"a,b\n" * 100, mtime=0)[:-9], "cannot be read"),
        (b"\x1f\x8bnot gzip", "cannot be read"),
    ],
)
def test_refuses(tmp_path, content, message):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(Table(path))


def test_refuses_missing_file(tmp_path):
    with pytest.raises(ValueError, match=r"missing\.csv cannot be read: No such file"):
        Table(tmp_path / "missing.csv")
    with pytest.raises(ValueError, match="cannot be read"):
        Table(tmp_path)


def test_refuses_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pipe is a pipe.*write it to a file"):
        Table(tmp_path / "pipe")


def test_a_quote_that_never_closes(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('a\n1\n"2\n' + "3\n" * 100_000)
    with pytest.raises(ValueError, match=r"table\.csv, line 3: field larger than .*: a closing quote may be missing"):
        list(Table(path))


def test_errors_in_later_lines(tmp_path):
    with pytest.raises(ValueError, match=r"table\.csv, line 3: "):
        list(Table(write(tmp_path, "a,b\n1,2\n" + "x" * 200_000 + ",3\n")))


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("1.5", 1.5),
        ("-3e1", -30.0),
        ("+2", 2.0),
        ("1_000", None),
        ("１２", None),
        ("a", None),
        ("", None),
        ("0x1", None),
    ],
)
def test_numbers_in_cells(cell, number):
    assert number_in(cell) == number
