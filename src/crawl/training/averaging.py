"""An exponential average of weights: it follows the noise of single steps less than the weights themselves do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from crawl.checks import whole_number
from crawl.training.checkpoint import check_weights

_HORIZON = 9  # the first step of a training changes its average by 9/10


class Average:
    """An average of the parameters and buffers of a model over the steps of its training.

    After step t the average moves by max(1 - decay, 9 / (9 + t)) of the way towards the model. At first it forgets
    faster than `decay` says, and so the weights of the beginning, which are random, do not weigh on early epochs.

    Statistics of batch norms are averaged like weights. They belong to the weights of the last steps, so those of the
    latest step alone would not suit averaged weights. To measure them instead, set `Evaluation.num_norm_graphs`.
    Buffers of integers are copied.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        named: dict[int, tuple[str, Tensor]] = {}
        for name, tensor in model.state_dict(keep_vars=True).items():
            named.setdefault(id(tensor), (name, tensor))  # a tied weight is averaged once
        self._model = dict(named.values())
        self._average = {name: tensor.detach().clone() for name, tensor in self._model.items()}
        like = next(model.parameters())
        dtype = torch.float64 if like.device.type == "cpu" else torch.float32
        self._num_steps = torch.zeros((), dtype=dtype, device=like.device)
        self._numbers = [name for name, tensor in self._model.items() if tensor.is_floating_point()]
        self._others = [name for name in self._model if name not in self._numbers]

    @torch.no_grad()
    def update(self) -> None:
        """Take the model's present weights into the average."""
        self._num_steps.add_(1)
        share = (_HORIZON / (_HORIZON + self._num_steps)).clamp_min(1 - self.decay)
        average = [self._average[name] for name in self._numbers]
        change = torch._foreach_sub([self._model[name] for name in self._numbers], average)
        torch._foreach_mul_(change, share)
        torch._foreach_add_(average, change)
        for name in self._others:
            self._average[name].copy_(self._model[name])

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """The model has the averaged weights here, in the same tensors, and its own again afterwards."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, tensor in self._model.items():
            own = tensor.clone()
            tensor.copy_(self._average[name])
            self._average[name].copy_(own)

    def changed_by_steps(self) -> list[Tensor]:
        """All tensors that `update` changes."""
        return [*self._average.values(), self._num_steps]

    def state(self) -> tuple[dict[str, Tensor], int]:
        """The averages by name, and the number of steps, from which `restore` resumes."""
        return self._average, int(self._num_steps)

    def restore(self, tensors: Mapping[str, Tensor], num_steps: int) -> None:
        """Resume from a state; refuses one that is not of an average of this model."""
        check_weights(tensors, self._average)
        self._num_steps.fill_(whole_number("average_steps", num_steps, 0))
        for name, tensor in self._average.items():
            tensor.copy_(tensors[name])
