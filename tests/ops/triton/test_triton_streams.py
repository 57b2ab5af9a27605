"""Gradients of weights that are computed beside the others equal autograd's, whatever else is done with the weights.

Without a GPU nothing runs at the same time, but what goes through autograd and what is added later is the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

from crawl import CRaWlConv, Graph, Walks, sample_walks

pytest.importorskip("triton")
from crawl.ops.triton import streams

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
TOLERANCE = 2e-5  # |found - expected| / |expected|
NUM_NODES = 3000 if ON_GPU else 9
WIDTH = 147 if ON_GPU else 8


@pytest.fixture(autouse=True)
def _triton_everywhere(monkeypatch: pytest.MonkeyPatch, wide_tiles: None) -> None:
    monkeypatch.setattr("crawl.ops.backends._DEVICES", {"cuda", "cpu"})


@pytest.fixture(scope="module")
def walks() -> Walks:
    node = torch.arange(NUM_NODES)
    ring = Graph.from_edge_index(torch.stack([node, (node + 1) % NUM_NODES]), undirected=True)
    return sample_walks(ring, 30 if ON_GPU else 7, window_size=4, seed=1)


def make_conv() -> CRaWlConv:
    torch.manual_seed(0)
    return CRaWlConv(WIDTH, WIDTH, window_size=4, precision="float32")


def features() -> Tensor:
    return torch.randn(NUM_NODES, WIDTH, generator=torch.Generator().manual_seed(1))


Step = Callable[[CRaWlConv, Tensor, Walks, Callable[[Tensor], None]], None]


def once(conv: CRaWlConv, x: Tensor, walks: Walks, backward: Callable[[Tensor], None]) -> None:
    backward(conv(x, walks).square().mean())


def tied(conv: CRaWlConv, x: Tensor, walks: Walks, backward: Callable[[Tensor], None]) -> None:
    backward(conv(conv(conv(x, walks), walks), walks).square().mean())


def accumulated(conv: CRaWlConv, x: Tensor, walks: Walks, backward: Callable[[Tensor], None]) -> None:
    for scale in (1.0, 0.5):
        backward(conv(scale * x, walks).square().mean())


def regularised(conv: CRaWlConv, x: Tensor, walks: Walks, backward: Callable[[Tensor], None]) -> None:
    """Some gradients of the same weights pass through autograd."""
    backward(conv(x, walks).square().mean() + sum(weight.square().sum() for weight in conv.parameters()))


def norm_weights(conv: CRaWlConv) -> None:
    """Column by column: the scale of a row would be taken out by the batch norm, its gradient a sum that cancels."""
    for layer in (conv.project, conv.mix, conv.update[0]):
        weight_norm(layer, dim=1)


def weight_normed(conv: CRaWlConv, x: Tensor, walks: Walks, backward: Callable[[Tensor], None]) -> None:
    norm_weights(conv)
    backward(conv(x, walks).square().mean())


def triple(weight: Tensor) -> None:
    weight.grad.mul_(3)


def hooked(conv: CRaWlConv, x: Tensor, walks: Walks, backward: Callable[[Tensor], None]) -> None:
    conv.mix.weight.register_hook(lambda grad: 2 * grad)
    conv.project.weight.register_post_accumulate_grad_hook(triple)
    backward(conv(x, walks).square().mean())


def frozen(conv: CRaWlConv, x: Tensor, walks: Walks, backward: Callable[[Tensor], None]) -> None:
    conv.mix.weight.requires_grad_(False)
    conv.update[0].weight.requires_grad_(False)
    backward(conv(x, walks).square().mean())


def checkpointed(conv: CRaWlConv, x: Tensor, walks: Walks, backward: Callable[[Tensor], None]) -> None:
    backward(checkpoint(conv, x, walks, use_reentrant=False).square().mean())


STEPS = [once, tied, accumulated, regularised, weight_normed, hooked, frozen, checkpointed]


def gradients(conv: nn.Module) -> dict[str, Tensor | None]:
    return {name: weight.grad for name, weight in conv.named_parameters()}


def expected_gradients(step: Step, walks: Walks) -> dict[str, Tensor | None]:
    """Of the reference in float64, by autograd alone; on a GPU, of the same kernels for a layer on top of another:
    rounding decides there which of the activations near 0 are positive.
    """
    if step is tied and DEVICE == "cuda":
        conv = make_conv().to(DEVICE)
        step(conv, features().to(DEVICE), walks.to(DEVICE), torch.autograd.backward)
        return {name: grad if grad is None else grad.double().cpu() for name, grad in gradients(conv).items()}
    conv = make_conv().double()
    conv.implementation = "reference"
    step(conv, features().double(), walks, torch.autograd.backward)
    return gradients(conv)


def assert_close(found: dict[str, Tensor | None], expected: dict[str, Tensor | None]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert found[name] is None, name
            continue
        assert found[name] is not None, name
        error = (found[name].double().cpu() - value).norm() / value.norm().clamp_min(1e-6)
        assert float(error) <= TOLERANCE, f"{name}: {float(error):.1e}"


@pytest.mark.parametrize("step", STEPS)
def test_gradients_are_autograds(step: Step, walks: Walks) -> None:
    conv = make_conv().to(DEVICE)
    step(conv, features().to(DEVICE), walks.to(DEVICE), streams.backward)
    assert_close(gradients(conv), expected_gradients(step, walks))
    assert not streams._passes


@pytest.mark.gpu
@pytest.mark.parametrize("step", [once, tied, accumulated, regularised, weight_normed])
def test_gradients_of_captured_steps_are_autograds(step: Step, walks: Walks) -> None:
    conv, x, on_device = make_conv().to(DEVICE), features().to(DEVICE), walks.to(DEVICE)
    assert on_device.visits.ptr is not None  # worked out before the capture
    if step is weight_normed:
        norm_weights(conv)
    run = once if step is weight_normed else step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run(conv, x, on_device, streams.backward)
            conv.zero_grad()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(conv, x, on_device, streams.backward)
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    assert_close(gradients(conv), expected_gradients(step, walks))


@pytest.mark.parametrize("step", [tied, accumulated])
def test_the_same_bits_every_time(step: Step, walks: Walks) -> None:
    results = []
    for _ in range(2):
        conv = make_conv().to(DEVICE)
        step(conv, features().to(DEVICE), walks.to(DEVICE), streams.backward)
        results.append(gradients(conv))
    for name, value in results[0].items():
        assert torch.equal(value, results[1][name]), name


class Doubled(torch.autograd.Function):
    """x + weight, whose gradient for the weight, twice the right one, is left to `backward`."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return x + weight

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        (weight,) = ctx.saved_tensors
        return grad, streams.weight_gradient(weight, lambda: 2 * grad, grad)


def test_threads_do_not_see_each_others_gradients() -> None:
    """All are in the middle of their pass at the same time."""
    num_threads = 3
    together = threading.Barrier(num_threads, timeout=60)
    own = [nn.Parameter(torch.zeros(4, device=DEVICE)) for _ in range(num_threads)]
    results: list[bool] = []

    def train(i: int) -> None:
        y = Doubled.apply(Doubled.apply(torch.zeros(4, device=DEVICE), own[i]), own[i])
        if not ON_GPU:  # there, one thread of autograd serves all passes
            y.register_hook(lambda grad: (together.wait(), grad)[1])
        streams.backward((i + 1) * y.sum())
        results.append(torch.equal(own[i].grad.cpu(), torch.full((4,), 4.0 * (i + 1))))

    threads = [threading.Thread(target=train, args=(i,)) for i in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * num_threads
    assert not streams._passes


@pytest.mark.parametrize("inside", [True, False], ids=["backward", "loss.backward"])
def test_only_backward_adds_gradients_later(inside: bool, walks: Walks, monkeypatch: pytest.MonkeyPatch) -> None:
    late = []
    add = streams._Pass.add
    monkeypatch.setattr(streams._Pass, "add", lambda own, weight, *rest: (late.append(weight), add(own, weight, *rest)))
    conv = make_conv().to(DEVICE)
    loss = conv(features().to(DEVICE), walks.to(DEVICE)).square().mean()
    streams.backward(loss) if inside else loss.backward()
    layers = (conv.update[3], conv.update[0], conv.mix, conv.depthwise, conv.project)
    expected = [layer.weight for layer in layers] if inside else []
    assert [id(weight) for weight in late] == [id(weight) for weight in expected]


def test_which_weights_may_come_later() -> None:
    late = streams._Pass(torch.device("cpu"))
    weight = nn.Parameter(torch.ones(2, 2))
    assert late.may_have(weight)
    assert not late.may_have(2 * weight)
    assert not late.may_have(weight.detach())
    assert not late.may_have(nn.Parameter(torch.ones(2, 2, device="meta")))
    handle = weight.register_hook(lambda grad: grad)
    assert not late.may_have(weight)
    handle.remove()
    assert late.may_have(weight)
    handle = weight.register_post_accumulate_grad_hook(lambda _: None)
    assert not late.may_have(weight)
    handle.remove()
    assert late.may_have(weight)


def test_a_pass_that_fails_leaves_nothing(walks: Walks) -> None:
    conv = make_conv().to(DEVICE)
    x = features().to(DEVICE).requires_grad_()

    def fail(_: Tensor) -> None:
        raise KeyError("stop")

    x.register_hook(fail)
    with pytest.raises(KeyError, match="stop"):
        streams.backward(conv(x, walks.to(DEVICE)).square().mean())
    assert not streams._passes
    conv.zero_grad()
    once(conv, features().to(DEVICE), walks.to(DEVICE), streams.backward)
    assert_close(gradients(conv), expected_gradients(once, walks))


def test_a_loss_without_gradient_is_torchs_error() -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        streams.backward(torch.ones((), device=DEVICE))
