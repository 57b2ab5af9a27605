"""Calls of everything public, with one to three of their arguments replaced by hostile values."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import crawl
import crawl.data as cd
import crawl.training as tr
from tests.fuzz import hostile
from tests.fuzz.calls import POSITIONAL, TARGETS, Arguments
from tests.fuzz.oracle import judge_call, quiet
from tests.fuzz.world import World, rng_of

SECONDS = 20.0

# Numbers up to these are a matter of taste and of time; above, the next hostile number is far above.
_CAPS = {
    **{"num_graphs": 300, "num_walks": 2000, "max_states": 10**6, "max_terms": 10**6, "max_entries": 10**6},
    **{"num_steps": 60, "num_eval_steps": 60, "num_repeats": 20, "max_epochs": 2, "num_layers": 4, "laplacian": 40},
    **{"num_points": 20, "top": 20},
    **{"n": 50, "k": 3, "num_test_repeats": 3, "num_val_repeats": 3, "hidden_channels": 64},
}


@dataclass(frozen=True)
class Call:
    """One case: which call, with which arguments, and which of them are hostile."""

    name: str
    function: Callable[..., Any]
    arguments: Arguments
    changed: tuple[str, ...]

    def __call__(self) -> Any:
        arguments = dict(self.arguments)
        return self.function(*arguments.pop(POSITIONAL, ()), **arguments)

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={_shown(self.arguments[name])}" for name in self.changed)
        return f"{self.name}({shown})"


def make_call(index: int, seed: int, given: World) -> Call:
    """Case `index`: the targets in turn, so that each gets its share."""
    rng = rng_of(seed, "api", index)
    name = list(TARGETS)[index % len(TARGETS)]
    torch.manual_seed(rng.randrange(2**31))
    function, arguments = TARGETS[name](given)
    with quiet():
        changed = _made_hostile(rng, arguments)
    return Call(name, function, arguments, changed)


def _made_hostile(rng: random.Random, arguments: Arguments) -> tuple[str, ...]:
    """Replace one to three of the arguments; their names."""
    changed = rng.sample(sorted(arguments), min(len(arguments), rng.choice((1, 1, 1, 2, 3))))
    for argument in changed:
        value = arguments[argument]
        if argument == POSITIONAL:
            place = rng.randrange(len(value))
            value = [*value]
            value[place] = _capped("n", hostile.hostile(rng, value[place]))
            arguments[argument] = value
        else:
            arguments[argument] = _capped(argument, hostile.hostile(rng, value))
    return tuple(changed)


def good_call(name: str, given: World) -> Call:
    """A target with good arguments only."""
    return Call(name, *TARGETS[name](given), ())


def judge(index: int, seed: int, given: World) -> tuple[str, str, str]:
    """What came of case `index`: the kind of outcome, the call, and more about the outcome."""
    call = make_call(index, seed, given)
    shown = str(call)
    kind, outcome = judge_call(
        call,
        SECONDS,
        allows_sklearn=call.name.startswith(("CRaWlClassifier", "CRaWlRegressor", "CRaWlNode", "CRaWlLink")),
    )
    if kind == "result":
        is_layer = call.name.endswith("forward") or call.name.startswith(("Segments.", "Walks."))
        is_excused = is_layer and any(_holds_nan(call.arguments[name]) for name in call.changed)
        is_excused |= call.name == "Walks"  # layers look where walks lead; to look here would wait for a GPU
        problem = None if is_excused else implausible(outcome)  # NaN into a layer, NaN out of it
        return ("failed", shown, f"accepted, but {problem}") if problem else ("result", shown, "")
    return kind, shown, str(outcome)


def implausible(result: Any) -> str | None:
    """What is wrong with a result, if something is."""
    if isinstance(result, dict | list | tuple):
        parts = result.values() if isinstance(result, dict) else result
        return next((wrong for part in parts if (wrong := implausible(part)) is not None), None)
    if isinstance(result, float) and not math.isfinite(result):  # numpy's float64 is one
        return f"the answer is {result}"
    if isinstance(result, Tensor) and result.is_floating_point() and not bool(result.isfinite().all()):
        return "the answer has NaN or infinity in it"
    if isinstance(result, tr.Predictions) and not np.isfinite(result.repeats).all():
        return "predictions are not finite"
    if isinstance(result, np.ndarray) and result.dtype.kind == "f" and not np.isfinite(result).all():
        return "the answer has NaN or infinity in it"
    if isinstance(result, cd.Dataset):
        for name in ("x", "edge_attr"):
            features = getattr(result.store, name)
            if features is not None and features.is_floating_point() and not bool(features.isfinite().all()):
                return f"{name} has NaN or infinity in it"
        y = result.store.y
        if y is not None and y.is_floating_point() and bool(y.isinf().any()):
            return "y has infinity in it"
    is_real = isinstance(result, crawl.Walks) and result.device.type != "meta"
    if is_real and result.num_walks and int(result.nodes.min()) < 0:
        return "a walk visits a negative node"
    return None


def _holds_nan(value: Any) -> bool:
    tensors = value.to_dict().values() if isinstance(value, Data) else [value]
    return any(isinstance(each, Tensor) and each.is_floating_point() and not each.isfinite().all() for each in tensors)


def _capped(name: str, value: Any) -> Any:
    """The value, or a far greater one where it would only take long."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return 2**63 if name in _CAPS and is_number and _CAPS[name] < value < 2**62 else value


def _shown(value: Any) -> str:
    try:
        if isinstance(value, Tensor):
            return f"tensor({list(value.shape)}, {value.dtype}, {value.layout}, {value.device})"
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= 120 else text[:117] + "…"
