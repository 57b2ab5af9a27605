"""Imports point one way, lazy and type-only ones included: between the packages, and between single modules."""

import ast
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1] / "src"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "crawl").rglob("*.py")
}

# Each line may import from its own modules and from the lines above it.
ORDER = [
    {f"crawl.{name}" for name in ("checks", "choices", "files", "lazy", "memory", "plain", "tensor_checks", "threads")},
    {"crawl.molecule_arrays", "crawl.processes"},
    {"crawl.ops"},
    {"crawl.compressed_rows", "crawl.edge_lists", "crawl.graph", "crawl.graph_files", "crawl.one_way_cpu"},
    {"crawl.walks"},
    {"crawl.encodings"},
    {"crawl.nn"},
    {"crawl.models"},
    {"crawl.exporting"},
    {"crawl.data"},
    {"crawl.training"},
    {"crawl.pages"},
    {"crawl.runs"},
    {"crawl.explanations"},
    {"crawl.estimators", "crawl.theory"},
    {"crawl.cli"},
    {"crawl.__main__"},
]
FACADE = "crawl"  # re-exports names, and imports them when they are used
BACKENDS = "crawl.ops.backends"  # its table names the kernels, which know the operations that look them up


@cache
def imports(module: str) -> set[str]:
    """The modules of ours that one imports anywhere, or names in a string, as `importlib` and `lazy` take it."""
    tree = ast.parse(MODULES[module].read_text())
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import."
            names = {f"{node.module}.{alias.name}" for alias in node.names} - {"crawl.__version__"}
            named |= {name if name in MODULES else str(node.module) for name in names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and module != BACKENDS:
            named |= {node.value} - {FACADE}
    return (named & MODULES.keys()) - {module}


CHECKED = sorted(MODULES.keys() - {FACADE})


def place(module: str) -> int:
    """The line of `ORDER` that a module belongs to."""
    lines = [i for i, line in enumerate(ORDER) if any(f"{module}.".startswith(f"{name}.") for name in line)]
    assert len(lines) == 1, f"{module} has no place in the order of imports: give it one."
    return lines[0]


def test_imports_that_a_reader_may_overlook_are_seen() -> None:
    assert "crawl.walks.cpu" in imports("crawl.walks.backends")  # a string for importlib
    assert "crawl.walks.sampling" in imports("crawl.walks.plan")  # in a function
    assert "crawl.walks.walks" in imports("crawl.walks.plan")  # for types only
    assert "crawl.walks.philox" in imports("crawl.walks.cpu")  # a module from a package


@pytest.mark.parametrize("module", CHECKED)
def test_imports_point_one_way(module: str) -> None:
    assert FACADE not in imports(module), "Import from the module that defines the name, not from crawl."
    later = {other for other in imports(module) if place(other) > place(module)}
    assert not later, f"{module} imports {sorted(later)}, which come after it."


def test_no_modules_import_each_other() -> None:
    graph = nx.DiGraph([(module, other) for module in CHECKED for other in imports(module)])
    cycles = [sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1]
    assert cycles == []
