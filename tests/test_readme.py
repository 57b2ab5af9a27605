"""The Python on the pages runs, commands and links lead somewhere, and the first one is `examples/quickstart.py`."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def python_blocks(page: Path) -> list[str]:
    """The blocks of a page, each moved down by empty lines so that errors name its line on the page."""
    text = page.read_text()
    blocks = re.finditer(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return ["\n" * text.count("\n", 0, block.start(1)) + block[1] for block in blocks]


# Scores that pages print, and what they must exceed: chance is 0.5 for accuracy and 0 for R2.
SCORES = {
    "docs/estimators.md": {"accuracy": 0.8, "R2": 0.5},
    "docs/nodes_and_links.md": {"loop accuracy": 0.8, "accuracy": 0.6},
    "docs/training.md": {"test accuracy": 0.8},
    "docs/tutorials/scikit_learn.md": {"test accuracy": 0.8},
}


@pages
def test_python_blocks_run_in_order(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = python_blocks(page)
    assert blocks
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
    printed = re.findall(r"^(.*(?:accuracy|R2)): ([-0-9.]+)$", capsys.readouterr().out, flags=re.MULTILINE)
    expected = SCORES.get(str(page.relative_to(ROOT)), {})
    assert [name for name, _ in printed] == list(expected)
    for name, score in printed:
        assert float(score) > expected[name], f"{name} {score}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        path = (page.parent / target).resolve()
        assert target.startswith("https://") or path.exists(), target


def test_first_example_is_the_quickstart() -> None:
    first = python_blocks(ROOT / "README.md")[0].strip()
    docstring, _, code = (ROOT / "examples" / "quickstart.py").read_text().partition("\n\n")
    assert docstring.endswith('"""')
    assert code.strip() == first


def test_commands_are_in_the_makefile() -> None:
    commands = set(re.findall(r"\bmake ([\w-]+)", (ROOT / "README.md").read_text()))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"train", "test"} <= commands <= targets


def test_the_papers_files_are_as_short_as_the_readme_says() -> None:
    text = (ROOT / "README.md").read_text()
    limit = re.search(r"are the paper in at most ([\d,]+) lines:\n\n", text)
    assert limit is not None
    names = re.findall(r"^\d+\. `([\w/]+\.py)`: ", text[limit.end() :], flags=re.MULTILINE)
    assert names[0] == "graph.py"
    assert names[-1] == "models.py"
    lines = sum(len((ROOT / "src" / "crawl" / name).read_text().splitlines()) for name in names)
    assert lines <= int(limit[1].replace(",", ""))
