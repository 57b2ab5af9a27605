"""How models are called, by the annotations of their `forward`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Optional

import pytest
from torch import Tensor, nn
from torch_geometric.data import Batch as PyGBatch

from crawl.nn import Batch
from crawl.training.calling import Caller, why_not_captured

if TYPE_CHECKING:
    from torch_geometric.data import Batch as GraphBatch  # noqa: F401
    from torch_geometric.data import Data  # noqa: F401


def model_of(annotation: Any) -> nn.Module:
    """A model whose `forward` has this annotation, in this module."""

    def forward(self: nn.Module, batch: Any) -> Tensor:
        raise NotImplementedError

    forward.__annotations__["batch"] = annotation
    return type("Mine", (nn.Module,), {"forward": forward})()


@pytest.mark.parametrize(
    ("annotation", "takes_batch"),
    [
        *((Batch, True), ("Batch", True), ("'Batch'", True), ("Batch | None", True), (Optional["Batch"], True)),
        *(
            ("Data | Batch", True),
            ("GraphBatch | Batch", True),
            ("crawl.nn.Batch", True),
            ("None | crawl.nn.Batch", True),
        ),
        *((PyGBatch, False), ("PyGBatch", False), ("Data", False), ("Data | None", False), ("no annotation!", False)),
        *(("torch_geometric.data.Batch", False), ("torch_geometric.data.Batch | None", False), (Any, False)),
    ],
)
def test_annotations_are_read_as_they_are_written(annotation: Any, takes_batch: bool) -> None:
    assert Caller(model_of(annotation)).takes_batch == takes_batch


@pytest.mark.parametrize("annotation", ["GraphBatch", "'GraphBatch'", "data.Batch", "GraphBatch | None", "Some[Batch]"])
def test_a_name_that_may_be_either_is_refused(annotation: str) -> None:
    message = r"forward of Mine takes a .*Batch.* write 'crawl\.nn\.Batch' or 'torch_geometric\.data\.Batch' in full\.$"
    for function in (Caller, why_not_captured):
        with pytest.raises(ValueError, match=message):
            function(model_of(annotation))


def test_a_wrapped_forward_has_the_names_of_its_own_module() -> None:
    class Wrapped(nn.Module):
        def forward(self, batch: Batch) -> Tensor:
            raise NotImplementedError

    def of_another_module(function: Any) -> Any:
        names: dict[str, Any] = {"function": function}
        exec("def wrapper(*arguments):\n    return function(*arguments)", names)
        return functools.wraps(function)(names["wrapper"])

    Wrapped.forward = of_another_module(Wrapped.forward)
    assert Caller(Wrapped()).takes_batch
