from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from crawl.checks import (
    as_list,
    as_path,
    between,
    check_choice,
    check_fields,
    check_type,
    positive_number,
    real_number,
    share,
    shown,
    truth,
    whole_number,
)
from crawl.tensor_checks import as_array, as_device, holds_integers, in_memory, plain_tensor

LOOP: list[object] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        ("a\nb", r"'a\nb'"),
        pytest.param(10**5000, "a value of type int", id="a number of 5,000 digits"),
        (LOOP, "[[...]]"),
        ("x" * 500, "'" + "x" * 76 + "…"),
        (torch.zeros(2, 3), "a tensor of torch.float32 and shape [2, 3]"),
    ],
)
def test_shown(value, text):
    assert shown(value) == text


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), torch.tensor(3), torch.tensor([3])[0]])
def test_whole_numbers(value):
    assert whole_number("n", value, 0, 5) == 3


@pytest.mark.parametrize(
    "value", [True, 3.0, "3", None, [3], 6, -1, 10**400, torch.tensor([1, 2]), torch.zeros((), device="meta"), 1j]
)
def test_what_is_not_a_whole_number(value):
    with pytest.raises(ValueError, match="n must be a whole number from 0 to 5, not "):
        whole_number("n", value, 0, 5)


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), torch.tensor(0.5), np.int64(1)])
def test_real_numbers(value):
    assert real_number("r", value, 0, 1) == float(value)
    assert share("r", value) == positive_number("r", value) == float(value)


@pytest.mark.parametrize("value", [True, "0.5", None, [0.5], math.nan, math.inf, 10**400, torch.tensor([0.5]), 1j, -1])
def test_what_is_not_a_real_number(value):
    for check in (positive_number, share):
        with pytest.raises(ValueError, match=r"r must be a .*, not "):
            check("r", value)
    with pytest.raises(ValueError, match=r"r must be a number from 0 to 1, not "):
        real_number("r", value, 0, 1)
    with pytest.raises(ValueError, match=r"r must be a number between 0 and 1, not "):
        between("r", value, 0, 1)


def test_between_leaves_out_its_limits():
    assert between("r", 0.5, 0, 1) == 0.5
    for limit in (0, 1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            between("r", limit, 0, 1)


def test_truth():
    assert truth("t", np.bool_(True)) is True
    for value in (1, None, "True", torch.tensor(True), []):
        with pytest.raises(ValueError, match="t must be True or False, not "):
            truth("t", value)


def test_choices():
    check_choice("c", None, ("mean", None))
    with pytest.raises(ValueError, match=r"c must be one of mean, sum, not 'maen'\. Did you mean 'mean'\?"):
        check_choice("c", "maen", ("mean", "sum"))
    for value in ([], torch.zeros(2), np.array(["mean", "sum"]), None):
        with pytest.raises(ValueError, match="c must be one of mean, sum, not "):
            check_choice("c", value, ("mean", "sum"))


def test_types():
    check_type("t", "a", str)
    with pytest.raises(ValueError, match=r"t must be a str, not 5: give its name\."):
        check_type("t", 5, str, "give its name")


@dataclass(frozen=True)
class Settings:
    number: int = 1
    least: int = 0
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"
    is_on: bool = False
    name: str = "x"
    maybe: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, "settings", at_least_0=("least",))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("number", value) for value in (0, 1.5, "1", True, 10**20)),
        *(("least", value) for value in (-1, None)),
        *(("rate", value) for value in (0, math.nan, math.inf, "1")),
        *(("kind", value) for value in ("c", 1, None)),
        *(("is_on", value) for value in (1, "yes")),
        *(("name", value) for value in (1, None)),
        *(("maybe", value) for value in (0, "a")),
    ],
)
def test_settings(field, value):
    Settings(rate=1, maybe=3)
    with pytest.raises(ValueError, match=rf"^settings\.{field} must be "):
        Settings(**{field: value})


def test_paths(tmp_path):
    assert as_path("p", str(tmp_path / "no")) == tmp_path / "no"
    for value in (5, None, b"a", "a\0b", "x" * 5000, Path("a\0")):
        with pytest.raises(ValueError, match="p must be a path, not "):
            as_path("p", value)


def test_lists():
    assert as_list("l", (i for i in range(2)), "numbers") == as_list("l", torch.arange(2), "numbers") == [0, 1]
    for value in (5, None, "ab", {1: 2}, {1, 2}, torch.tensor(1), np.array(1)):
        with pytest.raises(ValueError, match="l must be a list of numbers, not "):
            as_list("l", value, "numbers")


def test_arrays():
    assert as_array("a", torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    for value in (None, "a", [1, [2]], [None], torch.zeros(1, device="meta"), torch.eye(2).to_sparse(), object()):
        with pytest.raises(ValueError, match="a must be an array of numbers, not "):
            as_array("a", value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "must be a torch tensor, not list"),
        (torch.eye(2).to_sparse(), r"must not be sparse.*to_dense\(\)"),
        (torch.zeros(2, device="meta"), "meta, so it has no values"),
        (torch.zeros(2, dtype=torch.complex64), "must hold real numbers, not torch.complex64"),
        (torch.zeros(2).to(torch.float8_e4m3fn), r"call \.float\(\)"),
    ],
)
def test_tensors_that_cannot_be_read(value, message):
    with pytest.raises(ValueError, match=f"^x .*{message}" if "must be a" not in message else message):
        plain_tensor("x", value)
    assert not holds_integers(value)


def test_plain_tensors():
    x = torch.ones(2, requires_grad=True)
    assert plain_tensor("x", x) is x
    assert type(plain_tensor("x", EdgeIndex([[0], [0]]))) is Tensor
    assert all(holds_integers(torch.zeros(1, dtype=dtype)) for dtype in (torch.uint8, torch.uint32, torch.int64))


def test_devices():
    assert as_device("cpu") == as_device(torch.device("cpu")) == torch.device("cpu")
    for value in ("", "nowhere", 10**400, None, [], torch.zeros(1), "cuda:99"):
        with pytest.raises(ValueError, match="device"):
            as_device(value)


def test_memory():
    with pytest.raises(ValueError, match="A thing does not fit into memory"), in_memory("A thing"):
        torch.empty(2**50)
    with pytest.raises(RuntimeError, match="shape"), in_memory("A thing"):
        torch.zeros(2).view(3)
