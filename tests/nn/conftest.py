"""What tests of layers and blocks share."""

import pytest


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter stands in for a GPU: layers on the CPU use the kernels."""
    pytest.importorskip("triton")
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})
