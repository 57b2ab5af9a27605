"""Work that a GPU does beside the main chain of a computation: its small kernels leave most of the GPU idle.

Gradients of weights are such work: no other gradient needs them. In `backward` they do not pass through autograd, which
would read them too early, and where a step is captured, they are computed on a stream of their own. When the pass is
over they are added to `.grad`, as autograd would have done. So a weight that is used several times, or has a gradient
from an earlier pass, gets the sum.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from threading import get_ident
from typing import Any

import torch
from torch import Tensor

from crawl.ops.backends import can_use_triton

_UNHURRIED = ("weights", "prepare")  # streams whose kernels let those of the others go first
_claiming = threading.Lock()
_of_threads: dict[tuple[torch.device, str], dict[int, torch.cuda.Stream]] = {}  # whose keys are threads
_passes: dict[int, _Pass] = {}  # by the number that autograd gives to a pass, which no two threads share


def stream_of_thread(device: torch.device, name: str) -> torch.cuda.Stream:
    """The stream of that name that only this thread uses; one that a thread has left behind, if there is any.

    torch has 32 streams of each priority, which it hands out in turn: if many were asked for, one would soon be
    somebody else's, and work on a stream that another thread captures would spoil both.
    """
    with _claiming:
        owners = _of_threads.setdefault((device, name), {})
        if get_ident() not in owners:
            alive = {thread.ident for thread in threading.enumerate()}
            left = next((owner for owner in owners if owner not in alive), None)
            owners[get_ident()] = _new_stream(device, name) if left is None else owners.pop(left)
        return owners[get_ident()]


@cache
def shared_stream(device: torch.device, name: str) -> torch.cuda.Stream:
    """The stream of that name that all threads use, one at a time."""
    return _new_stream(device, name)


def in_parallel(device: torch.device, *branches: Callable[[], Any], of: str = "main") -> list[Any]:
    """The results of the branches, which may run at the same time in a captured step; `of` names who calls."""
    if not _is_capturing(device):
        return [branch() for branch in branches]
    here = torch.cuda.current_stream(device)
    fork = here.record_event()
    sides = [shared_stream(device, f"{of} {i}") for i in range(1, len(branches))]
    results = []
    for side, branch in zip(sides, branches[1:], strict=True):
        side.wait_event(fork)
        with torch.cuda.stream(side):
            results.append(branch())
    results.insert(0, branches[0]())
    for side in sides:
        here.wait_event(side.record_event())
    return results


def backward(loss: Tensor) -> None:
    """`loss.backward()`, in which gradients of weights may be computed beside the others. All are there in the end.

    It equals `loss.backward()` for every weight, tied, parametrised, hooked or with a gradient already. Hooks on the
    nodes of autograd's graph, such as those of `DistributedDataParallel`, are not seen: call `loss.backward()` then.
    """
    if not (can_use_triton(loss.device) and loss.requires_grad):
        return torch.autograd.backward(loss)
    late = _Pass(loss.device)

    def begin(_: Tensor) -> None:
        late.number = _number_of_pass()
        _passes[late.number] = late

    handle = loss.register_hook(begin)
    try:
        torch.autograd.backward(loss)
    finally:
        handle.remove()
        _passes.pop(late.number, None)
        late.wait()
    late.accumulate()


def weight_gradient(weight: Tensor, compute: Callable[[], Tensor], *inputs: Tensor | None) -> Tensor | None:
    """What the backward pass of an operation returns for a weight: its gradient, or None if `backward` adds it later.

    It comes later only in a pass of `backward`, and only to a weight that is a leaf without hooks: nobody else may want
    to see it.

    Args:
        weight: The weight itself, as it was given to the operation: not a view of it, and not a saved tensor, which is
            a copy where a checkpoint recomputes it.
        compute: Its gradient, in any shape of as many numbers.
        inputs: The tensors that `compute` reads, whose memory must not be used again before it is done.
    """
    late = _passes.get(_number_of_pass())
    if late is None or not late.may_have(weight):
        return compute().view(weight.shape)
    late.add(weight, compute, inputs)
    return None


def mark_inputs() -> None:
    """The next `release_inputs` is about the gradients of weights that have been asked for by now."""
    late = _passes.get(_number_of_pass())
    if late is not None:
        late.mark()


def release_inputs() -> None:
    """Wait for the gradients of weights that were asked for before the mark, and let go of what they read.

    Those asked for since then are left to run: to wait for them as well would leave the GPU idle.
    """
    late = _passes.get(_number_of_pass())
    if late is not None:
        late.release()


class _Pass:
    """A backward pass and the gradients that are not yet where they belong."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.number = device, -1
        self.side = shared_stream(device, "weights") if _is_capturing(device) else None
        self.gradients: list[tuple[Tensor, Tensor]] = []
        self.inputs: list[tuple[Tensor | None, ...]] = []  # of computations that may still run
        self.marked: tuple[torch.cuda.Event, int] | None = None  # when this many of them, the first ones, are done

    def may_have(self, weight: Tensor) -> bool:
        """Whether nobody but `.grad` waits for the gradient of this weight: it is a leaf without hooks."""
        has_hooks = weight._backward_hooks or weight._post_accumulate_grad_hooks
        return weight.is_leaf and weight.requires_grad and not has_hooks and weight.device == self.device

    def add(self, weight: Tensor, compute: Callable[[], Tensor], inputs: tuple[Tensor | None, ...]) -> None:
        """Compute the gradient of a weight on the side."""
        if self.side is not None:
            self.side.wait_event(torch.cuda.current_stream(self.device).record_event())
            self.inputs.append(inputs)
        with torch.cuda.stream(self.side):
            gradient = compute()
        self.gradients.append((weight, gradient.view(weight.shape)))

    def mark(self) -> None:
        """Remember what has been asked for by now."""
        if self.side is not None and self.inputs:
            self.marked = self.side.record_event(), len(self.inputs)

    def release(self) -> None:
        """Let the current stream wait for what was asked for before the mark; its memory may be used again then."""
        if self.marked is not None:
            event, number = self.marked
            torch.cuda.current_stream(self.device).wait_event(event)
            del self.inputs[:number]
            self.marked = None

    def wait(self) -> None:
        """Let the current stream wait for all that is computed on the side; memory may be used again then."""
        if self.side is not None and self.gradients:
            torch.cuda.current_stream(self.device).wait_event(self.side.record_event())
            self.inputs.clear()

    def accumulate(self) -> None:
        """Add the gradients to `.grad`."""
        for weight, gradient in self.gradients:
            if weight.grad is None:
                weight.grad = gradient
            else:
                weight.grad += gradient


def _is_capturing(device: torch.device) -> bool:
    """Whether a step is being captured here. One is captured at a time, so all can share the streams beside it.

    Kernels that the host starts one by one are too slow to overlap.
    """
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _number_of_pass() -> int:
    """The number of the backward pass that calls, from whichever of autograd's threads; -1 outside of one."""
    number: int = torch._C._current_graph_task_id()  # what torch.utils.checkpoint asks, too
    return number


def _new_stream(device: torch.device, name: str) -> torch.cuda.Stream:
    return torch.cuda.Stream(device, priority=0 if name.startswith(_UNHURRIED) else -1)
