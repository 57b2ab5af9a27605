from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from crawl.training.averaging import Average


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()


def change(model: nn.Module, step: int) -> None:
    """A made-up training step."""
    generator = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    model(torch.randn(6, 3, generator=generator, dtype=torch.float64))  # changes the norm's statistics


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.999])
def test_it_is_a_loop_in_python(decay):
    model = small_model()
    average = Average(model, decay)
    expected = {name: tensor.tolist() for name, tensor in model.state_dict().items()}

    def mixed(old, new, share):
        if isinstance(old, list):
            return [mixed(a, b, share) for a, b in zip(old, new, strict=True)]
        return old + share * (new - old)

    for step in range(1, 31):
        change(model, step)
        average.update()
        share = max(1 - decay, 9 / (9 + step))
        for name, tensor in model.state_dict().items():
            is_count = name.endswith("num_batches_tracked")
            expected[name] = tensor.tolist() if is_count else mixed(expected[name], tensor.tolist(), share)
    found, num_steps = average.state()
    assert num_steps == 30
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, torch.tensor(expected[name], dtype=tensor.dtype), rtol=0, atol=1e-12)


def test_the_model_has_it_only_inside():
    model = small_model()
    average = Average(model, 0.9)
    change(model, 1)
    average.update()
    own = copy.deepcopy(model.state_dict())
    averaged = copy.deepcopy(average.state()[0])
    addresses = [tensor.data_ptr() for tensor in model.state_dict().values()]
    with average.in_model():
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, averaged[name]), name
        assert not torch.equal(model[0].weight, own["0.weight"])
        assert [tensor.data_ptr() for tensor in model.state_dict().values()] == addresses  # CUDA graphs know them

    def interrupted() -> None:
        with average.in_model():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, own[name]), name
        assert torch.equal(average.state()[0][name], averaged[name]), name


def test_a_tied_weight_is_averaged_once():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    average = Average(model, 0.5)
    with torch.no_grad():
        model[0].weight.zero_()
    average.update()
    first = average.state()[0]["0.weight"].clone()
    assert average.state()[0].keys() == {"0.weight", "0.bias", "1.bias"}
    with average.in_model():
        assert torch.equal(model[1].weight, first)
        assert first.abs().sum() > 0
    assert model[0].weight.abs().sum() == 0


def test_it_resumes_from_its_state():
    whole, first, second = small_model(), small_model(), small_model()
    averages = [Average(model, 0.9) for model in (whole, first, second)]
    for step in range(10):
        change(whole, step)
        averages[0].update()
    for step in range(4):
        change(first, step)
        averages[1].update()
    second.load_state_dict(first.state_dict())
    averages[2].restore(*copy.deepcopy(averages[1].state()))
    for step in range(4, 10):
        change(second, step)
        averages[2].update()
    (expected, _), (found, num_steps) = averages[0].state(), averages[2].state()
    assert num_steps == 10
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name


@pytest.mark.parametrize(
    ("name", "value", "num_steps", "message"),
    [
        ("0.weight", torch.zeros(3, 3).double(), 1, "another architecture.*0.weight"),
        ("0.weight", torch.full((4, 3), torch.nan).double(), 1, "0.weight are NaN"),
        ("0.bias", torch.zeros(4).double(), -1, "average_steps must be a whole number from 0 .*, not -1"),
    ],
)
def test_a_state_that_does_not_fit(name, value, num_steps, message):
    average = Average(small_model(), 0.9)
    with pytest.raises(ValueError, match=message):
        average.restore({**average.state()[0], name: value}, num_steps)
