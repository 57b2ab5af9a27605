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

from crawl.training.settings import Training

_NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)


def make_optimiser(model: nn.Module, training: Training, lr: Tensor) -> Optimizer:
    """The optimiser of the settings, for all parameters of a model.

    Args:
        model: On the device where it is trained.
        training: Which optimiser, and its weight decay.
        lr: The learning rate, without dimensions, on the device of the model; the optimiser reads it at each step.
    """
    groups = _groups(model, training.weight_decay)
    if training.optimiser == "lion":
        return Lion(groups, lr)
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


class Lion(Optimizer):
    """Lion (Chen et al. 2023, Symbolic Discovery of Optimization Algorithms): steps of one size in each coordinate.

    With gradient g, momentum m and weights w: w ← (1 - lr · decay) w - lr · sign(β₁ m + (1 - β₁) g), then
    m ← β₂ m + (1 - β₂) g.

    Args:
        groups: Groups of parameters, each with its `weight_decay`.
        lr: The learning rate, without dimensions, on the device of the parameters.
        betas: β₁ and β₂.
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
