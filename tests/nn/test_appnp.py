"""APPNP against PyG."""

import pytest
import torch
from batches import assert_equals_pyg, first_state, make_batch
from torch_geometric.nn import APPNP as PyGAPPNP

from crawl.nn import APPNP


@pytest.mark.parametrize(("num_steps", "share"), [(10, 0.1), (1, 0.5)])
def test_equals_pyg(num_steps: int, share: float) -> None:
    """Also where the graph has self-loops, several of them, parallel edges or nodes without edges."""
    block = APPNP(num_steps=num_steps, share=share)
    assert_equals_pyg(block, PyGAPPNP(num_steps, share), {}, lambda state, batch: block(state, batch).nodes)


def test_dropout_acts_on_what_flows() -> None:
    batch = make_batch()
    before = first_state(batch, torch.float32)
    block = APPNP(dropout=1 - 1e-6)
    assert not block(before, batch).nodes.any()
    assert torch.equal(block.eval()(before, batch).nodes, APPNP()(before, batch).nodes)


@pytest.mark.parametrize("wrong", [{"share": 1}, {"share": 0}, {"num_steps": 0}], ids=str)
def test_wrong_values_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        APPNP(**wrong)
