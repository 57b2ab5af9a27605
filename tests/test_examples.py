"""Every example runs, without a warning, and the quickstart shows what it promises."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_quickstart_tells_the_graphs_apart(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(next(path for path in EXAMPLES if path.name == "quickstart.py")), run_name="__main__")
    printed = capsys.readouterr().out
    assert re.findall(r"back after (\d) steps", printed) == ["6", "3"]
    messages, walks = (float(distance) for distance in re.findall(r": (\d\.\d+)$", printed, flags=re.MULTILINE))
    assert messages < 1e-4 < walks
