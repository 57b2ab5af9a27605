"""How a model is called: with a `crawl.nn.Batch` or with PyG data, and with what else its `forward` accepts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ForwardRef, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from crawl.checks import check_type
from crawl.nn.batch import Batch
from crawl.nn.block import Block
from crawl.nn.conv import CRaWlConv
from crawl.nn.dropout import Dropout
from crawl.nn.norm import BatchNorm
from crawl.threads import torch_on_one_thread

_PARTS = ("x", "edge_index", "edge_attr", "edge_weight", "batch", "u")  # of PyG data, which a model may ask for by name


class Caller:
    """Calls a model with what its `forward` accepts.

    It gets a `crawl.nn.Batch` if the first argument is annotated as one (`takes_batch`), else PyG data, or those of
    `x`, `edge_index`, `edge_attr`, `edge_weight`, `batch` and `u` that it names, if `x` is the first; and those of
    `seed` and `num_steps` that it `accepts`. A model that takes PyG data as well as a `Batch` has them for walks
    that it draws on the data, so it gets neither with a `Batch`, which has its walks.

    Raises:
        ValueError: If the model needs anything else, or its annotation may be one or the other.
    """

    def __init__(self, model: nn.Module) -> None:
        called = getattr(model, "_orig_mod", model)  # of what torch.compile returns, which accepts anything
        parameters = list(inspect.signature(called.forward).parameters.values())
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        names = {parameter.name for parameter in parameters}
        self.model = model
        self.takes_batch = bool(parameters) and _is_batch(parameters[0].annotation, called)
        self.accepts = {name for name in ("seed", "num_steps") if name in names or (takes_all and not self.takes_batch)}
        if self.takes_batch and _has_others(str(parameters[0].annotation)):
            self.accepts = set()
        takes_parts = bool(parameters) and parameters[0].name == "x" and "edge_index" in names and not self.takes_batch
        self.parts = [name for name in _PARTS if name in names] if takes_parts else []
        given = {*(self.parts or [parameter.name for parameter in parameters[:1]]), *self.accepts}
        self.needs = [
            p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        ]
        if missing := [name for name in self.needs if name not in given]:
            raise ValueError(
                f"The forward of {type(called).__name__} needs {', '.join(missing)}, but a model is called with a "
                f"crawl.nn.Batch, with PyG data, or with {', '.join(_PARTS)} by name: take what you need from the data."
            )

    def __call__(self, batch: Any, seed: int, num_steps: int | None) -> Tensor:
        """The answer of the model to a batch."""
        words = {"seed": seed, "num_steps": num_steps}
        words = {name: value for name, value in words.items() if name in self.accepts}
        parts = {name: getattr(batch, name, None) for name in self.parts}
        answer = self.model(**parts, **words) if parts else self.model(batch, **words)
        if not isinstance(answer, Tensor):
            raise ValueError(f"The model must answer with a tensor, not {type(answer).__name__}.")
        return answer

    @contextmanager
    def own_threads(self) -> Iterator[None]:
        """Where to run the model: on a CPU the large operations of walk layers have threads of their own, and sharing
        out the many small ones that are left costs more than it brings, a lot more beside other work."""
        is_on_cpu = next(self.model.parameters()).device.type == "cpu"
        if is_on_cpu and any(isinstance(module, CRaWlConv) for module in self.model.modules()):
            with torch_on_one_thread():
                yield
        else:
            yield


def why_not_captured(model: nn.Module) -> str | None:
    """Why the steps of a model cannot be captured in CUDA graphs, with the name of the part; None if they can.

    What only shows when it is tried, such as a block that waits for the device, is found there.
    """
    check_type("model", model, nn.Module)
    caller = Caller(model)
    if not caller.takes_batch:
        return f"{type(model).__name__}: its forward does not take a crawl.nn.Batch, but PyG data"
    if caller.accepts:
        names = " and ".join(sorted(caller.accepts))
        return f"{type(model).__name__}: its forward takes {names}, of which a CUDA graph would keep the first value"
    for name, module in model.named_modules():
        part = f"{name or 'the model'} ({type(module).__name__})"
        if isinstance(module, Block) and module.why_not_captured is not None:
            return f"{part}: {module.why_not_captured}"
        if isinstance(module, _BatchNorm) and not isinstance(module, BatchNorm):
            return (
                f"{part}: torch's batch norm would count padding: use crawl.nn.BatchNorm, as norm(x, batch.nodes.rows)"
            )
        if hasattr(module, "_orig_mod"):
            return f"{part}: it is compiled by torch.compile"
        hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
        if any(hooks):
            return f"{part}: it has hooks, which run on the host"
    dtype = next((parameter.dtype for parameter in model.parameters() if parameter.dtype != torch.float32), None)
    return None if dtype is None else f"the model: its weights are of {dtype}, not float32"


def _has_others(annotation: str) -> bool:
    """Whether an annotation names several classes."""
    return any(sign in annotation.replace("| None", "") for sign in ("|", "Union["))


def draws_from_torch(model: nn.Module) -> bool:
    """Whether a model may draw from torch's generator: dropout that is ours has one, modules of others may use it."""
    for module in model.modules():
        origin, rate = type(module).__module__, getattr(module, "dropout", 0.0)
        is_random = "dropout" in origin or (isinstance(rate, float) and rate > 0) or isinstance(module, nn.RReLU)
        if not isinstance(module, Dropout) and (is_random or not origin.startswith(("crawl.", "torch.nn."))):
            return True
    return False


class _Unknown(type):
    """A class of nothing, for a name in an annotation that exists for type checkers only."""

    def __getattr__(cls, name: str) -> _Unknown:
        return _Unknown(f"{cls.__name__}.{name}", (), {})


class _Names(dict[str, Any]):
    """The names in an annotation."""

    def __missing__(self, name: str) -> _Unknown:
        return _Unknown(name, (), {})


def _is_batch(annotation: Any, model: nn.Module) -> bool:
    """Whether an annotation says `crawl.nn.Batch`, alone or among others. Refuses a name that may or may not say it."""
    kinds = _kinds(annotation, _Names(getattr(inspect.unwrap(model.forward), "__globals__", {})))
    unknown = [kind.__name__ for kind in kinds if isinstance(kind, _Unknown)]
    if any(kind is Batch for kind in kinds) or "crawl.nn.Batch" in unknown:
        return True
    for name in unknown:
        if "batch" in name.lower() and not name.startswith("torch_geometric."):
            raise ValueError(
                f"The forward of {type(model).__name__} takes a {name}, which is not a name in its module when it runs "
                "and may be that of crawl or of PyG: write 'crawl.nn.Batch' or 'torch_geometric.data.Batch' in full."
            )
    return False


def _kinds(annotation: Any, names: _Names) -> list[Any]:
    """The classes that an annotation names, itself included."""
    annotation = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    if isinstance(annotation, str):
        try:
            return _kinds(eval(annotation, {}, names), names)
        except Exception:  # an annotation may be anything
            return [_Unknown(annotation, (), {})]
    return [annotation, *(kind for inner in get_args(annotation) for kind in _kinds(inner, names))]
