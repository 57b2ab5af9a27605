"""Every example runs, without a warning, and the quickstart shows what it promises."""

import json
import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_quickstart_tells_the_graphs_apart(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(next(path for path in EXAMPLES if path.name == "quickstart.py")), run_name="__main__")
    printed = capsys.readouterr().out
    messages, walks = (float(distance) for distance in re.findall(r": (\d\.\d+)$", printed, flags=re.MULTILINE))
    assert messages < 1e-4 < walks


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_notebook_runs(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells), "a notebook is kept without outputs"
    namespace = {"__name__": "__main__"}
    for cell in cells:
        exec(compile("".join(cell["source"]), notebook.name, "exec"), namespace)
    assert capsys.readouterr().out
