"""Optimisers whose step can be captured in a CUDA graph.

The learning rate is a tensor on the device, and their state exists from the beginning: a step neither waits for the
device nor allocates anything that the next one needs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.optim import Adam, AdamW, Optimizer

from crawl.ops.backends import fast_module
from crawl.training.settings import Training

_NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)


def make_optimiser(model: nn.Module, training: Training, lr: Tensor) -> Optimizer:
    """The optimiser of the settings, for all parameters of a model. It reads `lr`, without dimensions, at each step."""
    groups = _groups(model, training.weight_decay)
    if training.optimiser == "lion":
        return Lion(groups, lr)
    kernels = fast_module("adam", lr.device, _common_dtype(model))
    is_contiguous = all(parameter.is_contiguous() for parameter in model.parameters())  # the kernel goes by addresses
    has_penalty = training.optimiser == "adam" and training.weight_decay > 0  # the kernel has none
    if kernels is not None and is_contiguous and not has_penalty:
        return FusedAdam(groups, lr, kernels)
    kind = AdamW if training.optimiser == "adamw" else Adam
    optimiser = kind(groups, lr=lr, weight_decay=0.0, capturable=lr.device.type == "cuda", fused=True)
    for parameter in model.parameters():
        optimiser.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimiser


def decayed_parameters(model: nn.Module) -> list[str]:
    """The names of the parameters that weight decay shrinks.

    It leaves out all parameters of norms, all parameters called a bias, and all with fewer than two dimensions: they
    shift and scale channels, and shrinking them does not make the network simpler. Embeddings are not left out.
    """
    of_norms = {id(p) for module in model.modules() if isinstance(module, _NORMS) for p in module.parameters()}
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1 and "bias" not in name.rpartition(".")[2] and id(parameter) not in of_norms
    ]


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    decayed = set(decayed_parameters(model)) if weight_decay else set()
    named = list(model.named_parameters())
    groups: list[dict[str, Any]] = [
        {"params": [parameter for name, parameter in named if name not in decayed]},
        {"params": [parameter for name, parameter in named if name in decayed], "weight_decay": weight_decay},
    ]
    return [group for group in groups if group["params"]]


def _common_dtype(model: nn.Module) -> torch.dtype:
    """The type of all parameters; that of the first that is not float32, if there is one."""
    dtypes = [parameter.dtype for parameter in model.parameters()]
    return next((dtype for dtype in dtypes if dtype != torch.float32), torch.float32)


class FusedAdam(Optimizer):
    """Adam, or AdamW where groups have a weight decay, in one kernel for all parameters.

    torch's fused one gives each tensor to a few threads, which takes longer the more tensors there are.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        lr: Tensor,
        kernels: Any,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})
        self.kernels = kernels
        self._parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        self._decays = [float(group["weight_decay"]) for group in self.param_groups for _ in group["params"]]
        sizes = [parameter.numel() for parameter in self._parameters]
        self._first = [sum(sizes[:i]) for i in range(len(sizes))]
        self._steps = torch.zeros(len(sizes), device=lr.device)
        self._moments = torch.zeros(2, sum(sizes), device=lr.device)
        moments = [of.split(sizes) for of in self._moments]
        for parameter, step, mean, square in zip(self._parameters, self._steps, *moments, strict=True):
            views = {"exp_avg": mean.view(parameter.shape), "exp_avg_sq": square.view(parameter.shape)}
            self.state[parameter] = {"step": step, **views}
        self._tables: dict[tuple[int, ...], tuple[Tensor, ...]] = {}  # for each set of addresses

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Change the weights; those without a gradient are left alone."""
        del closure
        found = [(i, parameter.grad) for i, parameter in enumerate(self._parameters) if parameter.grad is not None]
        if not found:
            return
        grads = torch.cat([grad.reshape(-1) for _, grad in found])
        (numbers, *tables), settings = self._tables_of([i for i, _ in found]), self.defaults
        if len(found) == len(self._steps):
            steps = self._steps.add_(1)
        else:
            steps = self._steps[numbers] + 1
            self._steps[numbers] = steps
        rest = (settings["lr"], steps, settings["betas"], settings["eps"])
        self.kernels.adam_step(*tables, grads, self._moments, *rest)

    def _tables_of(self, chosen: list[int]) -> tuple[Tensor, ...]:
        """Numbers, addresses, sizes, weight decays and blocks of parameters; made once, before a step is captured."""
        addresses = tuple(self._parameters[i].data_ptr() for i in chosen)
        if addresses not in self._tables:
            device, sizes = self._steps.device, [self._parameters[i].numel() for i in chosen]
            self._tables[addresses] = (
                torch.tensor(chosen, dtype=torch.int64, device=device),
                torch.tensor(addresses, dtype=torch.int64, device=device),
                torch.tensor(sizes, dtype=torch.int32, device=device),
                torch.tensor([self._decays[i] for i in chosen], dtype=torch.float32, device=device),
                self.kernels.blocks_of(sizes, [self._first[i] for i in chosen], device),
            )
        return self._tables[addresses]


class Lion(Optimizer):
    """Lion (Chen et al. 2023, Symbolic Discovery of Optimization Algorithms): steps of one size in each coordinate.

    With gradient g, momentum m and weights w: w ← (1 - lr · decay) w - lr · sign(β₁ m + (1 - β₁) g), then
    m ← β₂ m + (1 - β₂) g.
    """

    def __init__(self, groups: list[dict[str, Any]], lr: Tensor, betas: tuple[float, float] = (0.9, 0.99)) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": 0.0})
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter] = {"exp_avg": torch.zeros_like(parameter)}

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step along the gradients; a parameter without one is left alone."""
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                continue
            gradients = [parameter.grad for parameter in parameters]
            momenta = [self.state[parameter]["exp_avg"] for parameter in parameters]
            lr, (beta1, beta2) = group["lr"], group["betas"]
            updates = torch._foreach_lerp(momenta, gradients, 1 - beta1)
            torch._foreach_sign_(updates)
            torch._foreach_mul_(updates, lr)
            if group["weight_decay"]:
                torch._foreach_mul_(parameters, 1 - lr * group["weight_decay"])
            torch._foreach_sub_(parameters, updates)
            torch._foreach_lerp_(momenta, gradients, 1 - beta2)
