"""What holds for every block that a network can name, and for a network of all of them."""

from __future__ import annotations

import copy
import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from batches import (
    WIDTH,
    WINDOW,
    assert_same,
    first_state,
    make_batch,
    make_block,
    one_by_one,
    pad,
    relabelled,
    results,
    with_uneven_norms,
)
from torch.nn.utils.parametrizations import weight_norm
from torch.utils._python_dispatch import TorchDispatchMode

from crawl import Network
from crawl.choices import OF_BLOCKS
from crawl.nn import BLOCKS, GCN2, Block, BlockSettings, EdgeUpdate, Parallel, VirtualNodeBlock

each_block = pytest.mark.parametrize("name", BLOCKS)
EXACT = 1e-10  # relative to the norm, in float64
SINGLE = 2e-5 if torch.cuda.is_available() else 1e-5  # in float32, on a GPU and in the interpreter


@each_block
def test_padding_changes_nothing_in_plain_torch(name: str) -> None:
    """In evaluation, where batch norms do not look at other rows."""
    block, batch = make_block(name).eval(), make_batch()
    assert_same(results(block, pad(batch)), results(block, batch), EXACT)


@each_block
def test_kernels_on_padding_equal_plain_torch(
    name: str, monkeypatch: pytest.MonkeyPatch, kernels: torch.device
) -> None:
    block, batch = make_block(name), make_batch()
    found = results(block, pad(batch), dtype=torch.float32)
    monkeypatch.setattr("crawl.ops.backends._DEVICES", set())
    assert_same(found, results(block, batch), SINGLE)


@each_block
def test_graphs_do_not_see_each_other(name: str) -> None:
    """In evaluation, where batch norms do not look at other rows."""
    block, batch = make_block(name).eval(), make_batch()
    whole = results(block, batch)
    for part, rows in one_by_one(batch):
        alone = results(block, part)
        for key, kept in zip(("nodes", "edges", "graphs"), rows, strict=True):
            torch.testing.assert_close(alone[key], whole[key][kept], rtol=EXACT, atol=EXACT)


@each_block
def test_the_order_of_nodes_and_edges_changes_nothing(name: str) -> None:
    block, batch = make_block(name), make_batch()
    moved, rows = relabelled(batch)
    assert_same(results(block, moved, rows), results(block, batch), EXACT)


@each_block
def test_every_parameter_learns(name: str) -> None:
    block = make_block(name)
    found = results(block, make_batch())
    for parameter, _ in block.named_parameters():
        assert found[f"gradient of {parameter}"].any(), parameter


class NoWaiting(TorchDispatchMode):
    """Refuses what waits for a device, or has a shape that only the values tell."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "nonzero", "masked_select", "bincount", "_unique2"), name
        masks = args[1] if name in ("index", "index_put", "index_put_", "_index_put_impl_") else ()
        assert not any(isinstance(index, torch.Tensor) and index.dtype == torch.bool for index in masks), name
        return func(*args, **(kwargs or {}))


@each_block
def test_nothing_waits_for_the_device(name: str, kernels: torch.device) -> None:
    block, batch = make_block(name), pad(make_batch())
    before = first_state(batch, torch.float32)
    with NoWaiting():
        after = block(before, batch)
        (after.nodes.sum() + after.edges.sum() + after.graphs.sum()).backward()


def test_waiting_would_be_found() -> None:
    x = torch.arange(3.0)
    for wait in (lambda: x.sum().item(), lambda: x[x > 1], lambda: x.nonzero(), lambda: bool(x.any())):
        with NoWaiting(), pytest.raises(AssertionError):
            wait()


@each_block
def test_a_copy_has_weights_of_its_own(name: str) -> None:
    block, batch = make_block(name), make_batch()
    expected, copied = results(block, batch), copy.deepcopy(block)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.zero_()
    assert_same(results(copied, batch), expected, 0)


@each_block
def test_it_says_what_it_reads(name: str) -> None:
    """`sees_edges`, `changes_edges` and `uses_walks` tell a network what to prepare."""
    block, batch = make_block(name), make_batch()
    found = results(block, batch)
    assert bool(found["gradient of nodes"].any())
    other = results(block, type(batch)(**{**vars(batch), "edge_attr": batch.edge_attr.roll(1, 0)}))
    sees = not torch.equal(other["nodes"], found["nodes"]) or block.changes_edges
    assert sees == block.sees_edges
    assert block.changes_edges == (not torch.equal(found["edges"], batch.edge_attr.double()))
    if not block.uses_walks:
        without = results(block, type(batch)(**{**vars(batch), "walks": None}))
        assert_same(without, found, 0)


def network_of_all() -> Network:
    torch.manual_seed(3)
    # `appnp` brings the states of neighbours together, so that norms after it make rounding larger: it comes last.
    names = (*(name for name in BLOCKS if name not in ("appnp", "gcn2")), GCN2(8, num_steps=2), "appnp")
    # The virtual node is not part of the last layer, so two layers.
    model = Network(
        WIDTH, 3, layer=(*names, ("gine", "gru")), num_layers=2, hidden_channels=8, edge_dim=WIDTH, window_size=WINDOW,
        num_heads=2, pool="sum", precision="float32",
    )  # fmt: skip
    return with_uneven_norms(model)


def network_results(model: Network, batch, num_graphs: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    model = copy.deepcopy(model).to(dtype)
    out = model(batch)[:num_graphs]
    out.sin().sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return {"out": out.detach(), **gradients}


def test_kernels_on_padding_equal_plain_torch_for_a_network_of_all_blocks(
    monkeypatch: pytest.MonkeyPatch, kernels: torch.device
) -> None:
    model, batch = network_of_all(), make_batch()
    found = network_results(model, pad(batch), batch.num_graphs, torch.float32)
    monkeypatch.setattr("crawl.ops.backends._DEVICES", set())
    assert_same(found, network_results(model, batch, batch.num_graphs, torch.float64), SINGLE)


def test_tied_and_weight_normed_blocks(monkeypatch: pytest.MonkeyPatch, kernels: torch.device) -> None:
    """Gradients of a weight that is used twice, and of one that is a function of others."""
    torch.manual_seed(4)
    shared, normed = make_block("gated_gcn"), make_block("feed_forward")
    weight_norm(normed.last)
    model = Network(WIDTH, 3, layers=[shared, normed, shared, normed], hidden_channels=WIDTH, edge_dim=WIDTH)
    model, batch = with_uneven_norms(model), make_batch()
    found = network_results(model, pad(batch), batch.num_graphs, torch.float32)
    assert any("parametrizations" in name for name in found)
    monkeypatch.setattr("crawl.ops.backends._DEVICES", set())
    assert_same(found, network_results(model, batch, batch.num_graphs, torch.float64), SINGLE)


def test_padding_changes_nothing_for_a_network_of_all_blocks_in_plain_torch() -> None:
    model, batch = network_of_all().eval(), make_batch()
    found = network_results(model, pad(batch), batch.num_graphs, torch.float64)
    assert_same(found, network_results(model, batch, batch.num_graphs, torch.float64), EXACT)


def test_the_page_on_blocks_has_them_all() -> None:
    page = (Path(__file__).parents[2] / "docs" / "blocks.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, flags=re.MULTILINE))
    assert rows == {name: kind.__name__ for name, kind in BLOCKS.items()}


def test_names_build_what_they_name() -> None:
    assert all(issubclass(kind, Block) for kind in BLOCKS.values())
    model = network_of_all()
    kinds = [type(model.blocks[i]) for i in model.order[: len(BLOCKS)]]
    assert set(kinds) == set(BLOCKS.values())


@pytest.mark.parametrize("name", ["gat", "attention"])
def test_heads_share_the_channels_evenly(name: str) -> None:
    with pytest.raises(ValueError, match=r"num_heads=4.*not 90.*hidden_channels=92"):
        Network(1, 1, layer=(name,), hidden_channels=90)


@pytest.mark.parametrize(
    ("layer", "last"),
    [
        (("walk", "virtual_node"), "walk"),
        (("walk", "virtual_node", "gine"), "walk virtual_node gine"),
        (("virtual_node", "walk"), "virtual_node walk"),
        (("walk", VirtualNodeBlock(8)), "walk"),
        (("walk", ("virtual_node", "gine")), "walk gine"),
        (("walk", ("virtual_node", "gine", "gru")), "walk gine+gru"),
        (("walk", ("virtual_node", "gine"), "gin"), "walk virtual_node+gine gin"),
        (("walk", ("virtual_node", VirtualNodeBlock(8))), "walk"),
        (("walk", "edge_update", "gine"), "walk edge_update gine"),
        (("walk", "gine", "edge_update"), "walk gine"),
        (("gine", "edge_update", "gcn"), "gine gcn"),
        (("gine", EdgeUpdate(8), "edge_update"), "gine"),
        (("gine", "virtual_node", "edge_update"), "gine"),
        (("edge_update", ("gine", "edge_update")), "edge_update gine"),
        (("walk_edges", "gated_gcn"), "walk_edges gated_gcn"),
        ((("gine",),), "gine+"),
    ],
    ids=str,
)
def test_the_last_layer_has_what_is_heard(layer: tuple, last: str) -> None:
    names = {kind: name for name, kind in BLOCKS.items()}

    def named(block: Block) -> str:
        if not isinstance(block, Parallel):
            return names[type(block)]
        return "+".join(map(named, block.blocks)) + "+" * (len(block.blocks) == 1)

    for num_layers in (1, 3):
        model = Network(1, 1, layer=layer, num_layers=num_layers, hidden_channels=8, edge_dim=3)
        assert " ".join(map(named, list(model.blocks)[len(layer) * (num_layers - 1) :])) == last


@pytest.mark.parametrize("layer", [("gine", "edge_update"), ("edge_update", ("gcn", "gine", "edge_update"))])
def test_every_parameter_of_a_network_learns(layer: tuple) -> None:
    model = Network(WIDTH, 1, layer=layer, num_layers=2, hidden_channels=8, edge_dim=WIDTH)
    model(make_batch()).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("edge_dim", [3, None])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize(
    "layer",
    [("edge_update",), ("gcn", "edge_update"), ("edge_update", "gcn"), ("gcn", ("gin", EdgeUpdate(8)))],
    ids=str,
)
def test_an_edge_update_that_no_block_sees_is_refused(layer: tuple, num_layers: int, edge_dim: int | None) -> None:
    with pytest.raises(ValueError, match=r"^No block after EdgeUpdate sees the edges that it changes: leave it out"):
        Network(1, 1, layer=layer, num_layers=num_layers, hidden_channels=8, edge_dim=edge_dim)


def test_an_edge_update_at_the_end_of_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match="No block after EdgeUpdate sees"):
        Network(1, 1, layers=["gine", "edge_update", "gine", ("gine", "edge_update")], hidden_channels=8, edge_dim=3)


@pytest.mark.parametrize(
    "parts", [{"layer": ()}, {"layers": []}, {"layer": ("virtual_node",), "num_layers": 1}], ids=str
)
def test_a_network_needs_blocks(parts: dict) -> None:
    with pytest.raises(ValueError, match="A network needs a block"):
        Network(1, 1, **parts)


def test_settings_belong_to_the_blocks_that_read_them() -> None:
    """`OF_BLOCKS` against what each block takes when it is built."""
    readers: dict[str, set[str]] = {}
    for name, kind in BLOCKS.items():
        read = set()

        class Spy(BlockSettings):
            def __getattribute__(self, setting: str) -> object:
                read.add(setting)  # noqa: B023
                return super().__getattribute__(setting)

        kind.build(Spy(8, 8))
        if "arguments_of" in read:
            read = set(inspect.signature(kind).parameters)
        for setting in read:
            readers.setdefault(setting, set()).add(name)
    of_all = {"in_channels", "channels", "edge_channels", "jumps", "dropout", "window_size", "norm"}
    of_some = {field.name for field in fields(BlockSettings)} - of_all
    assert {setting: readers[setting] for setting in of_some} == {key: set(users) for key, users in OF_BLOCKS.items()}
