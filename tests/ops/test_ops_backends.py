"""Which back end serves which operation, and that `crawl.ops` is a leaf."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

import crawl
from crawl.ops import backends
from crawl.ops.backends import can_use_triton, fast_module

CPU = torch.device("cpu")
LEAVES = {"checks", "choices", "memory", "ops", "tensor_checks", "threads"}


@pytest.mark.parametrize(
    ("operation", "devices", "dtype", "expected"),
    [
        ("walk_conv", set(), torch.float32, "crawl.ops.cpu"),
        ("walk_conv", set(), torch.float64, "crawl.ops.cpu"),
        ("walk_conv", set(), torch.bfloat16, None),
        ("walk_conv", {"cpu"}, torch.float32, "crawl.ops.triton.walk_conv"),
        ("walk_conv", {"cpu"}, torch.float64, "crawl.ops.cpu"),
        ("neighbours", set(), torch.float64, "crawl.ops.cpu_neighbours"),
        ("neighbours", {"cpu"}, torch.float32, None),
        ("linear", set(), torch.float32, None),
        ("linear", {"cpu"}, torch.float32, "crawl.ops.triton.linear"),
        ("batch_norm", {"cpu"}, torch.float32, "crawl.ops.triton.norm"),
        ("batch_norm", {"cpu"}, torch.float16, None),
        ("segments", {"cpu"}, torch.float32, "crawl.ops.triton.segments"),
    ],
)
def test_who_serves_what(operation, devices, dtype, expected, monkeypatch: pytest.MonkeyPatch) -> None:
    if devices:
        pytest.importorskip("triton")
    monkeypatch.setattr(backends, "_DEVICES", devices)
    module = fast_module(operation, CPU, dtype)
    assert (None if module is None else module.__name__) == expected
    assert can_use_triton(CPU) == bool(devices)


def test_ops_import_nothing_that_imports_them() -> None:
    """Lazy imports and those for types alone count, too."""
    folder = Path(crawl.__file__).parent / "ops"
    for path in folder.rglob("*.py"):
        for statement in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
            if isinstance(statement, ast.ImportFrom):
                assert statement.level == 0, path
                names = [f"{statement.module}.{alias.name}" for alias in statement.names]
            for name in names:
                assert not name.startswith("crawl") or name.split(".")[1] in LEAVES, f"{path}: {name}"
