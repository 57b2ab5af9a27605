"""Checks of what callers give: the value in the form the library wants, or an error that says what is wrong.

They need neither torch nor numpy, so that a mistake in a flag is found at once; `tensor_checks` has those that do.
"""

from __future__ import annotations

import dataclasses
import difflib
import errno
import functools
import math
import operator
import os
import sys
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeGuard, TypeVar

T = TypeVar("T")

MAX_CHANNELS = 2**20  # of features and answers
MAX_WIDTH = 2**14  # of a layer, whose weights grow with its square
MAX_LAYERS = 1000
MAX_COUNT = 2**31 - 1
MAX_WINDOW_SIZE = 32  # whose bits fit into a code of 64
MAX_SEED = 2**64 - 1


def shown(value: object) -> str:
    """A value for a message, shortened; nothing that it is made of can raise an error here."""
    try:
        if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "dtype") and hasattr(value, "shape"):
            return f"a tensor of {value.dtype} and shape {list(value.shape)}"
        text = " ".join(repr(value).split())
    except Exception:  # a number of more digits than Python prints, a list in itself, anything
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}…"


def whole_number(name: str, value: Any, low: int = 1, high: int = MAX_COUNT) -> int:
    """`value` as an int. Refuses what is not a whole number from `low` to `high`; numpy's and torch's integers are."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        number = None
    if number is None or not low <= number <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}, not {shown(value)}.")
    return number


def real_number(name: str, value: Any, low: float = -math.inf, high: float = math.inf, wanted: str = "") -> float:
    """`value` as a float. Refuses what is not a finite number from `low` to `high`; the message asks for `wanted`."""
    try:
        is_number = isinstance(value, int | float) or (hasattr(value, "__float__") and value.shape == ())
        number = float(value) if is_number and not isinstance(value, bool) else math.nan
    except (AttributeError, TypeError, ValueError, OverflowError, RuntimeError):
        number = math.nan
    if not low <= number <= high or math.isinf(number):
        limits = f" from {low:g} to {high:g}" if math.isfinite(low) or math.isfinite(high) else ""
        raise ValueError(f"{name} must be {wanted or 'a number' + limits}, not {shown(value)}.")
    return number


def positive_number(name: str, value: Any) -> float:
    """`value` as a float. Refuses what is not a number above 0 that is finite."""
    return real_number(name, value, math.ulp(0), wanted="a positive number")


def between(name: str, value: Any, low: float, high: float) -> float:
    """`value` as a float. Refuses what is not a number strictly between `low` and `high`."""
    inside = math.nextafter(low, high), math.nextafter(high, low)
    return real_number(name, value, *inside, f"a number between {low:g} and {high:g}")


def share(name: str, value: Any, wanted: str = "a share in (0, 1]") -> float:
    """`value` as a float. Refuses what is not a share: above 0 and at most 1; the message asks for `wanted`."""
    return real_number(name, value, math.ulp(0), 1, wanted)


def truth(name: str, value: Any) -> bool:
    """`value` as a bool. Refuses what is neither True nor False, numpy's included."""
    if not (isinstance(value, bool) or repr(type(value)) in ("<class 'numpy.bool'>", "<class 'numpy.bool_'>")):
        raise ValueError(f"{name} must be True or False, not {shown(value)}.")
    return bool(value)


def check_choice(name: str, value: object, choices: Iterable[str | None]) -> None:
    """Refuses a value that is not one of the choices, and suggests one that is."""
    choices = tuple(choices)
    if not ((value is None or isinstance(value, str)) and value in choices):
        near = _nearest(value, (choice for choice in choices if choice is not None))
        hint = f" Did you mean {near!r}?" if near else ""
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, not {shown(value)}.{hint}")


def suggestion(name: object, known: Iterable[str]) -> str:
    """A sentence to follow an error message: what the user may have meant, or else what there is."""
    near = _nearest(name, known)
    return f" Did you mean {near!r}?" if near else f" There are: {', '.join(known)}."


def _nearest(name: object, known: Iterable[str]) -> str | None:
    """The one of these words that a name is probably meant to be; capitals do not count."""
    words = {word.lower(): word for word in known}
    near = difflib.get_close_matches(name.lower(), words, n=1) if isinstance(name, str) else []
    return words[near[0]] if near else None


def check_type(name: str, value: object, kind: type[T] | tuple[type[T], ...], remedy: str = "") -> TypeGuard[T]:
    """Refuses what is not of a type, or of one of several."""
    if not isinstance(value, kind):
        hint = f": {remedy}." if remedy else "."
        names = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
        raise ValueError(f"{name} must be a {names}, not {shown(value)}{hint}")
    return True


_type_hints = functools.cache(typing.get_type_hints)  # of which there are many in all recipes together


def check_fields(settings: Any, place: str, at_least_0: tuple[str, ...] = ()) -> None:
    """Refuses settings, a dataclass of plain values, of which one is not of the type that its annotation says.

    Numbers must be positive; those named in `at_least_0` may be 0. An int is fine where a float is wanted.
    """
    hints = _type_hints(settings.__class__)
    for field in dataclasses.fields(settings):
        name, value, hint = f"{place}.{field.name}", getattr(settings, field.name), hints[field.name]
        choices = typing.get_args(hint)
        if type(None) in choices:
            if value is None:
                continue
            hint = next(each for each in choices if each is not type(None))
        if typing.get_origin(hint) is Literal:
            check_choice(name, value, choices)
        elif hint is bool:
            truth(name, value)
        elif hint is int:
            whole_number(name, value, 0 if field.name in at_least_0 else 1, MAX_COUNT)
        elif hint is float and field.name in at_least_0:
            real_number(name, value, 0, sys.float_info.max)
        elif hint is float:
            positive_number(name, value)
        elif hint is str:
            check_type(name, value, str)


def as_path(name: str, value: Any) -> Path:
    """The path. Refuses what cannot be the name of a file or folder; whether there is one is not asked."""
    if not isinstance(value, str | Path):
        raise ValueError(f"{name} must be a path, not {shown(value)}.")
    try:
        os.lstat(value)
    except FileNotFoundError:
        pass
    except (ValueError, OSError) as error:  # a zero byte in it, say, or too many letters
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
            raise ValueError(f"{name} must be a path, not {shown(value)}.") from None
    return Path(value)


def as_list(name: str, values: Any, of: str) -> list[Any]:
    """The values in a list. Refuses what cannot be gone through, text, and what has no order."""
    if isinstance(values, str | bytes | bytearray | dict | set | frozenset) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} must be a list of {of}, not {shown(values)}.")
    try:
        is_vector = getattr(values, "ndim", None) == 1 and hasattr(values, "tolist")  # of torch or numpy
        return list(values.tolist() if is_vector else values)
    except (TypeError, ValueError, RuntimeError, LookupError):  # as of an array without dimensions
        raise ValueError(f"{name} must be a list of {of}, not {shown(values)}.") from None


def check_window_size(window_size: Any) -> int:
    """The window size as an int; refuses one that no code of bits can hold."""
    return whole_number("window_size", window_size, 0, MAX_WINDOW_SIZE)


def check_restart(restart: object) -> float:
    """The chance that a step goes back to the start, as a float; refuses one that is not between 0 and 1."""
    return between("restart", restart, 0, 1)


def check_centred(strategy: str, centred: object) -> bool:
    """Whether walks are centred, as a bool; refuses a strategy that cannot be."""
    centred = truth("centred", centred)
    if centred and strategy in ("node2vec", "depth_first", "restart"):
        raise ValueError(
            f"{strategy} walks cannot be centred: take uniform, non_backtracking, min_degree or "
            "min_degree_non_backtracking walks, or leave out centred."
        )
    return centred


def check_node2vec(p: object, q: object) -> None:
    """Refuses parameters of node2vec that no walk can have: a q far from 1 has nearly every draw rejected."""
    if not (isinstance(p, int | float) and isinstance(q, int | float) and p >= 1e-3 and 1e-3 <= q <= 1e3):
        raise ValueError(
            f"node2vec needs p from 0.001 to infinity and q from 0.001 to 1000, not p={shown(p)} and q={shown(q)}."
        )
