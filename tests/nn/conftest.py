"""What tests of layers and blocks share."""

import pytest


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Triton's interpreter stands in for a GPU: layers on the CPU use the kernels."""
    pytest.importorskip("triton")
    request.getfixturevalue("wide_tiles")
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})
