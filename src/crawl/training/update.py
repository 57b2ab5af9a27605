"""What a training step does with gradients: add them over batches, clip them, change the weights, average those.

All tensors exist from the beginning, at fixed addresses, and nothing waits for the device, so that a step can be
captured in a CUDA graph.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from crawl.training.averaging import Average
from crawl.training.checkpoint import check_moments
from crawl.training.optimisers import make_optimiser
from crawl.training.ranks import Ranks
from crawl.training.settings import Training


class WeightUpdate:
    """Optimiser, learning rates, accumulated gradients and averaged weights of a training.

    Args:
        model: On the device where it is trained.
        training: How to train.
        rates: The learning rate of each step of the first epoch.
        ranks: The processes that train together; one when None.

    Attributes:
        mean_loss: The loss of the last step of several processes, over all of their targets.
    """

    def __init__(self, model: nn.Module, training: Training, rates: list[float], ranks: Ranks | None = None) -> None:
        self.training, self.parameters, self.ranks = training, list(model.parameters()), ranks or Ranks()
        device = self.parameters[0].device
        dtype = torch.float64 if device.type == "cpu" else torch.float32  # as the fused optimisers read it
        self._rates = torch.tensor(rates, dtype=dtype, device=device)  # that of the coming step comes first
        self.optimiser = make_optimiser(model, training, self._rates[0])
        self._sums: list[Tensor] = []
        self._count, self._loss = torch.zeros(2, dtype=dtype, device=device)
        self._flat: Tensor | None = None
        if self.ranks.size > 1:
            self._lay_out_flat()
        elif training.accumulate > 1:
            self._sums = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._with_gradient: set[int] = set()
        self._is_agreed = False
        self.mean_loss = self._loss.clone()
        self.average = None if training.average_decay is None else Average(model, training.average_decay)

    def _lay_out_flat(self) -> None:
        """One array for all sums, their count and the loss, which processes add up in one go."""
        if len({parameter.dtype for parameter in self.parameters}) > 1:
            raise ValueError(
                "Several processes can train a model whose parameters have one type: call model.to(dtype)."
            )
        sizes = [parameter.numel() for parameter in self.parameters]
        like = self.parameters[0]
        self._flat = torch.zeros(sum(sizes) + 2, dtype=like.dtype, device=like.device)
        *parts, count, loss = torch.split(self._flat, [*sizes, 1, 1])
        self._count, self._loss = count.view(()), loss.view(())
        self._sums = [part.view(p.shape) for part, p in zip(parts, self.parameters, strict=True)]

    def begin_epoch(self, rates: list[float]) -> None:
        """Set the learning rate of each step of an epoch; gradients of an interrupted step are dropped."""
        self._rates.copy_(torch.tensor(rates, dtype=torch.float64))
        self._drop_sums()

    @torch.no_grad()
    def add_gradients(self, loss: Tensor, count: Tensor) -> None:
        """Add the gradients of a summed loss over this many targets to those of the batches before it."""
        found = {i: parameter.grad for i, parameter in enumerate(self.parameters) if parameter.grad is not None}
        if self._is_agreed and found.keys() != self._with_gradient:
            raise ValueError(
                "Other parameters have a gradient than in the first step, and perhaps not on all processes: train such "
                "a model in one process."
            )
        self._with_gradient.update(found)
        torch._foreach_add_([self._sums[i] for i in found], list(found.values()))
        self._count.add_(count)
        self._loss.add_(loss)

    def agree(self) -> None:
        """See, once, that all processes change the same parameters: those that have a gradient in the first batches.

        A captured step says nothing of its later batches, so this set is kept.
        """
        if self.ranks.size > 1 and not self._is_agreed:
            self.ranks.check_equal("Which parameters have a gradient", sorted(self._with_gradient))
            self._is_agreed = True

    @torch.no_grad()
    def step(self, *, is_trial: bool = False) -> None:
        """Change the weights, with the accumulated gradients if there are any; the next learning rate is then due.

        A trial, before a step is captured, has the gradients of this process alone: the others may not try anything.
        """
        if self._sums:
            self._use_sums(is_trial)
        if self.training.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.training.clip_norm)
        self.optimiser.step()
        self._drop_sums()
        self._rates.copy_(self._rates.roll(-1))
        if self.average is not None:
            self.average.update()

    def _use_sums(self, is_trial: bool) -> None:
        if self._flat is not None and not is_trial:
            self.ranks.sum_(self._flat)
        self.mean_loss = self._loss / self._count.clamp_min(1)
        torch._foreach_div_(self._sums, self._count.clamp_min(1))
        for i in self._with_gradient:  # the optimiser leaves a parameter without one alone
            self.parameters[i].grad = self._sums[i]

    def _drop_sums(self) -> None:
        if self._sums:
            torch._foreach_zero_(self._sums)
            self._count.zero_()
            self._loss.zero_()
        if self.ranks.size == 1:
            self._with_gradient.clear()

    def averaged(self) -> AbstractContextManager[None]:
        """Where to evaluate the model: with averaged weights, if they are averaged."""
        return nullcontext() if self.average is None else self.average.in_model()

    def changed_by_steps(self) -> list[Tensor]:
        """All tensors that a step changes, except those of the model."""
        state = [tensor for of_one in self.optimiser.state.values() for tensor in of_one.values()]
        average = [] if self.average is None else self.average.changed_by_steps()
        return [*state, self._rates, *self._sums, self._count, self._loss, *average]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values from which `restore` resumes, between two epochs."""
        tensors = {
            f"optimiser.{i}.{name}": tensor
            for i, parameter in enumerate(self.parameters)
            for name, tensor in self.optimiser.state[parameter].items()
        }
        values: dict[str, Any] = {"optimiser": self.training.optimiser}
        if self.average is not None:
            averages, values["average_steps"] = self.average.state()
            tensors |= {f"average.{name}": tensor for name, tensor in averages.items()}
        return tensors, values

    def restore(self, moments: dict[str, Tensor], averages: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Resume from a state.

        Args:
            moments: What the optimiser remembers, without the prefix `optimiser`.
            averages: The averaged weights, without the prefix `average`.
            values: The plain values.

        Raises:
            ValueError: If it is the state of another optimiser, another model, or with other averages.
        """
        before, now = values.get("optimiser", "adam"), self.training.optimiser
        if before != now:
            raise ValueError(f"it was trained with {before}, not {now}: set training.optimiser={before!r}")
        given: dict[int, dict[str, Tensor]] = {}
        for name, tensor in moments.items():
            number, _, rest = name.partition(".")
            given.setdefault(int(number), {})[rest] = tensor
        wanted = [self.optimiser.state[parameter] for parameter in self.parameters]
        check_moments(given, wanted)
        for i, of_one in enumerate(wanted):
            for name, tensor in of_one.items():
                # Older checkpoints have nothing for a parameter that never had a gradient.
                tensor.copy_(given[i][name]) if i in given else tensor.zero_()
        if self.average is not None:
            if not averages:
                raise ValueError("it has no averaged weights: leave out training.average_decay")
            self.average.restore(averages, values["average_steps"])
        elif averages:
            raise ValueError("it has averaged weights: set training.average_decay as it was")
