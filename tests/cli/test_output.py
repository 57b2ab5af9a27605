from __future__ import annotations

from pathlib import Path

import pytest

from crawl.cli.output import open_output


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(TypeError), open_output(path) as file:
        file.writelines(["new", 3])
    assert path.read_text() == "old"
    with open_output(path) as file:
        file.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_dash_is_the_standard_output(capsys):
    with open_output(Path("-")) as file:
        file.write("hello")
    assert capsys.readouterr().out == "hello"
