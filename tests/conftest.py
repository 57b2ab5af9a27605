"""What all tests share."""

import os
import signal
import warnings
from collections.abc import Iterator

import pytest
import torch

# Without a GPU, Triton's kernels run in its interpreter. Triton reads this when it is first imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

with warnings.catch_warnings():  # torch 2.13 deprecates torch.jit.script, which PyG 2.8 calls when it is imported
    warnings.simplefilter("ignore")
    import torch_geometric  # noqa: F401


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes that are started see Ctrl-C, also where these tests run in the background of a script and do not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


torch.set_num_threads(1)  # tensors as small as in tests only wait for a second thread, and long if the machine is busy


@pytest.fixture
def triton_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the interpreter stand in for a GPU."""
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})


@pytest.fixture
def plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use no kernels, on a GPU either."""
    monkeypatch.setattr("crawl.ops.backends._DEVICES", set())
