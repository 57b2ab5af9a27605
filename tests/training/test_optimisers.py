from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from crawl import CRaWl, Embedding
from crawl.training import Training
from crawl.training.optimisers import FusedAdam, decayed_parameters, make_optimiser

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RATES = [0.1, 0.03, 0.2, 0.05, 0.01, 0.1, 0.1, 0.07, 0.02, 0.3]


def small_model(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)


def gradients(model: nn.Module, step: int) -> None:
    """Give every parameter the gradient of a made-up loss."""
    generator = torch.Generator().manual_seed(step)
    model.zero_grad()
    x = torch.randn(5, 3, generator=generator, dtype=torch.float64).to(next(model.parameters()).dtype)
    model(x).square().sum().backward()


def our_optimiser(model: nn.Module, **settings: object) -> tuple[torch.optim.Optimizer, torch.Tensor]:
    lr = torch.zeros((), dtype=torch.float64)
    return make_optimiser(model, Training(**settings), lr), lr


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "weight_decay"), [("adam", 0.0), ("adam", 0.3), ("adamw", 0.0), ("adamw", 0.3)])
def test_every_step_is_that_of_torch(name, weight_decay, dtype):
    ours, theirs = small_model(dtype), small_model(dtype)
    optimiser, lr = our_optimiser(ours, optimiser=name, weight_decay=weight_decay)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    groups = [
        {"params": [theirs[0].weight, theirs[3].weight], "weight_decay": weight_decay},
        {"params": [theirs[0].bias, *theirs[1].parameters(), theirs[3].bias], "weight_decay": 0.0},
    ]
    peer = kind(groups, fused=True)
    for step, rate in enumerate(RATES):
        for model in (ours, theirs):
            gradients(model, step)
        lr.fill_(rate)
        for group in peer.param_groups:
            group["lr"] = rate
        optimiser.step()
        peer.step()
        for (parameter, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b), (step, parameter)


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_lion_is_a_loop_in_numpy(weight_decay):
    model = small_model()
    optimiser, lr = our_optimiser(model, optimiser="lion", weight_decay=weight_decay)
    decayed = decayed_parameters(model)
    weights = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    momenta = {name: np.zeros_like(weight) for name, weight in weights.items()}
    for step, rate in enumerate(RATES):
        gradients(model, step)
        lr.fill_(rate)
        for name, parameter in model.named_parameters():
            gradient = parameter.grad.numpy().copy()
            direction = np.sign(0.9 * momenta[name] + 0.1 * gradient)
            decay = weight_decay if name in decayed else 0.0
            weights[name] = weights[name] - rate * (direction + decay * weights[name])
            momenta[name] = 0.99 * momenta[name] + 0.01 * gradient
        optimiser.step()
        for name, parameter in model.named_parameters():
            np.testing.assert_allclose(parameter.detach().numpy(), weights[name], rtol=0, atol=1e-14, err_msg=name)


def test_weights_are_decayed_and_norms_and_biases_are_not():
    model = CRaWl(Embedding(5, 4), 1, hidden_channels=8, num_layers=2, virtual_node=True)
    norms = [name for name, module in model.named_modules() if isinstance(module, nn.BatchNorm1d)]
    left_out = {f"{norm}.{name}" for norm in norms for name in ("weight", "bias")}
    left_out |= {name for name, _ in model.named_parameters() if name.endswith(".bias")}
    assert len(norms) == 6
    assert set(decayed_parameters(model)) == {name for name, _ in model.named_parameters()} - left_out


def test_norms_and_biases_of_several_dimensions_are_not_decayed():
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm((2, 3))
            self.attention_bias = nn.Parameter(torch.ones(2, 2))
            self.scale = nn.Parameter(torch.ones(3))
            self.temperature = nn.Parameter(torch.ones(()))
            self.gru = nn.GRU(2, 2)
            self.weight = nn.Parameter(torch.ones(2, 2))

    assert decayed_parameters(Odd()) == ["weight", "gru.weight_ih_l0", "gru.weight_hh_l0"]


@pytest.mark.parametrize("name", ["adam", "adamw", "lion"])
def test_the_state_exists_before_the_first_step(name):
    model = small_model()
    optimiser, lr = our_optimiser(model, optimiser=name)
    before = {p: {key: tensor.data_ptr() for key, tensor in optimiser.state[p].items()} for p in model.parameters()}
    lr.fill_(0.1)
    gradients(model, 0)
    optimiser.step()
    for parameter, pointers in before.items():
        assert pointers
        assert {key: tensor.data_ptr() for key, tensor in optimiser.state[parameter].items()} == pointers


@pytest.mark.parametrize("name", ["adam", "adamw", "lion"])
def test_a_parameter_without_a_gradient_is_left_alone(name):
    model = small_model()
    optimiser, lr = our_optimiser(model, optimiser=name, weight_decay=0.0 if name == "adam" else 0.5)
    lr.fill_(0.1)
    before = copy.deepcopy(model.state_dict())
    gradients(model, 0)
    model[3].weight.grad = None
    optimiser.step()
    changed = {key for key, tensor in model.state_dict().items() if not torch.equal(tensor, before[key])}
    assert changed == before.keys() - {"3.weight"}


@pytest.mark.usefixtures("triton_everywhere")
def test_the_l2_penalty_of_adam_is_left_to_torch() -> None:
    pytest.importorskip("triton")
    rate = torch.tensor(1e-2, device=DEVICE)
    plain, penalised = (
        make_optimiser(nn.Linear(3, 2).to(DEVICE), Training(weight_decay=decay), rate) for decay in (0.0, 0.1)
    )
    assert isinstance(plain, FusedAdam)
    assert isinstance(penalised, torch.optim.Adam)


@pytest.mark.parametrize(("name", "weight_decay"), [("adam", 0.0), ("adamw", 0.1)])
@pytest.mark.usefixtures("triton_everywhere")
def test_one_kernel_for_all_parameters_equals_torch(name: str, weight_decay: float, monkeypatch) -> None:
    """Also where some parameters have no gradient in a step: their moments and steps stay."""
    pytest.importorskip("triton")
    training = Training(optimiser=name, weight_decay=weight_decay)
    models, optimisers = [], []
    for devices in ({"cuda", "cpu"}, set()):
        monkeypatch.setattr("crawl.ops.backends._DEVICES", devices)
        torch.manual_seed(1)
        models.append(nn.Sequential(nn.Linear(40, 61), nn.Tanh(), nn.Linear(61, 3)).to(DEVICE))
        optimisers.append(make_optimiser(models[-1], training, torch.tensor(1e-2, device=DEVICE)))
    assert [isinstance(optimiser, FusedAdam) for optimiser in optimisers] == [True, False]
    for step in range(6):
        x = torch.randn(16, 40, generator=torch.Generator().manual_seed(step)).to(DEVICE)
        for model, optimiser in zip(models, optimisers, strict=True):
            optimiser.zero_grad()
            (model[0](x) if step == 2 else model(x)).square().mean().backward()
            optimiser.step()
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)
        for key, moment in optimisers[1].state[other].items():
            torch.testing.assert_close(optimisers[0].state[one][key], moment, rtol=1e-5, atol=1e-8)


@pytest.mark.usefixtures("triton_everywhere")
def test_parameters_that_are_not_contiguous_are_changed_where_they_are() -> None:
    """The kernel takes addresses: it would add the change of a number to another one."""
    pytest.importorskip("triton")
    torch.manual_seed(0)
    values = torch.randn(4, 3)
    ours, theirs = (nn.ParameterList([values.clone().to(DEVICE).t()]) for _ in range(2))
    optimisers = make_optimiser(ours, Training(), torch.tensor(0.1, device=DEVICE)), torch.optim.Adam(theirs, lr=0.1)
    assert not ours[0].is_contiguous()
    factor = torch.arange(12.0, device=DEVICE).view(3, 4) - 5.5
    for model, optimiser in zip((ours, theirs), optimisers, strict=True):
        (model[0] * factor).sum().backward()
        optimiser.step()
    torch.testing.assert_close(ours[0], theirs[0])
