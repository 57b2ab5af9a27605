"""Which models suit which data: what is refused before anything is trained."""

from __future__ import annotations

from torch import nn

from crawl.data.one_graph import OneGraph
from crawl.data.store import GraphStore
from crawl.nn.conv import CRaWlConv
from crawl.nn.virtual_node import VirtualNode
from crawl.nn.walk_block import check_pools_starts
from crawl.training.calling import Caller
from crawl.walks.plan import WalkPlan


def check_model(model: nn.Module, caller: Caller, plan: WalkPlan | None, store: GraphStore | OneGraph) -> None:
    """Refuses a model that takes features by name that the graphs lack, or networks inside it with other plans; and
    one that the batches of one graph do not suit.
    """
    for name in ("x", "edge_attr"):
        if name in caller.parts and name in caller.needs and getattr(store, name) is None:
            raise ValueError(
                f"The graphs have no {name}, but the forward of {type(model).__name__} needs it: give it to "
                f"them, or write {name}=None in forward if the model can do without."
            )
    if isinstance(store, OneGraph):
        _check_full(model) if store.batches == "full" else _check_closed(model, caller, plan)
    for name, module in model.named_modules() if caller.takes_batch and plan is not None else ():
        if (own := getattr(module, "walk_plan", None)) not in (None, plan):
            raise ValueError(
                f"{name} ({type(module).__name__}) has {own}, but would get the walks of the model, which has "
                f"{plan}: give both the same walk_plan."
            )


def _check_full(model: nn.Module) -> None:
    virtual = [name for name, module in model.named_modules() if isinstance(module, VirtualNode)]
    if virtual:
        raise ValueError(
            f"{virtual[0]} (VirtualNode) normalises over the graphs of a batch, and a batch of the full graph "
            "has one, so it would say the same whatever the graph is: leave it out, or use batches='closed'."
        )


def _check_closed(model: nn.Module, caller: Caller, plan: WalkPlan | None) -> None:
    if not caller.takes_batch:
        raise ValueError(
            f"{type(model).__name__} takes PyG data, and would get the full graph for each batch of some targets: use "
            "batches='full', or write a forward that takes a crawl.nn.Batch."
        )
    if plan is not None and not plan.centred and not plan.has_jumps:  # which closed batches refuse
        for module in model.modules():
            if isinstance(module, CRaWlConv):
                check_pools_starts(module)
