"""Kernels compile for a GPU that is not there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("triton")


@pytest.mark.slow
def test_kernels_of_a_training_compile(tmp_path) -> None:
    record = tmp_path / "record.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.compile_kernels", "feed_forward", "--record", record],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(record.read_text())
    assert found["trainings"] == {"feed_forward": "ok"}
    assert found["failures"] == {}
    kernels = {kernel["kernel"] for kernel in found["kernels"]}
    assert {"crawl.ops.triton.layout._nodes", "crawl.ops.triton.norm._normalise"} & kernels
    assert all(kernel["registers"] > 0 for kernel in found["kernels"])
