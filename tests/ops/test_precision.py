"""The precision of products: what is set around a call, and what a backward pass remembers."""

from __future__ import annotations

import threading

import pytest
import torch
from torch_geometric.data import Data

from crawl import CRaWl, CRaWlConv, Graph, VirtualNode, sample_walks
from crawl.ops.precision import current_precision, precision


def test_tf32_unless_something_is_set() -> None:
    assert current_precision() == "tf32"
    with precision("float32"):
        assert current_precision() == "float32"
        with precision(None):
            assert current_precision() == "float32"
        with precision("bf16"):
            assert current_precision() == "bf16"
        assert current_precision() == "float32"
    assert current_precision() == "tf32"


def test_another_thread_has_its_own() -> None:
    seen = []
    with precision("float32"):
        thread = threading.Thread(target=lambda: seen.append(current_precision()))
        thread.start()
        thread.join()
    assert seen == ["tf32"]


@pytest.mark.parametrize("wrong", ["fp16", 32, ""])
def test_a_precision_that_is_not_one_is_refused(wrong: object) -> None:
    message = f"precision must be one of tf32, bf16, float32.*{wrong!r}"
    with pytest.raises(ValueError, match=message), precision(wrong):
        pass
    for make in (lambda: CRaWlConv(2, 2, precision=wrong), lambda: VirtualNode(2, precision=wrong)):
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(ValueError, match=message):
        CRaWl(2, 2, precision=wrong)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch, kernels: torch.device) -> list[str]:
    """The precision of every product in Triton."""
    from crawl.ops.triton import linear, products, walk_conv

    seen = []

    def product(a, b, name, **options):
        seen.append(name)
        return products.product(a, b, name, **options)

    monkeypatch.setattr(linear, "product", product)
    monkeypatch.setattr(walk_conv, "product", product)
    return seen


def test_a_model_sets_it_for_all_its_layers_and_their_gradients(used: list[str]) -> None:
    edge_index = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    model = CRaWl(
        1, 1, hidden_channels=4, num_layers=2, window_size=2, num_steps=4, virtual_node=True, precision="float32"
    )
    loss = model(Data(edge_index=edge_index, num_nodes=3), seed=0).sum()
    assert current_precision() == "tf32"
    loss.backward()
    assert set(used) == {"float32"}
    assert len(used) > 20


@pytest.mark.parametrize(("own", "around", "expected"), [(None, "float32", "float32"), ("float32", "bf16", "float32")])
def test_a_layer_has_its_own_or_what_is_around(own, around: str, expected: str, used: list[str]) -> None:
    graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]), undirected=True)
    walks = sample_walks(graph, 4, window_size=2)
    conv = CRaWlConv(3, 4, window_size=2, precision=own)
    with precision(around):
        out = conv(torch.randn(3, 3), walks)
    out.sum().backward()
    assert set(used) == {expected}
