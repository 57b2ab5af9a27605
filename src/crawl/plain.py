"""Dataclasses from plain values, as JSON holds them, and back: checked by cattrs, with messages that say what is wrong.

Numbers stay numbers and words stay words: nothing is converted, except whole numbers where any number will do.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from cattrs import AttributeValidationNote, BaseValidationError, Converter, ForbiddenExtraKeysError
from cattrs.cols import list_structure_factory
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, make_mapping_structure_fn, override

from crawl.checks import check_choice, shown

T = TypeVar("T")
LEFT_OUT = {"left out": "while it has its default"}  # metadata of a field that records from before it do not have


def structure(kind: type[T], values: Any, what: str) -> T:
    """An instance of a dataclass, or a checked dictionary of a `TypedDict`; missing keys take their defaults.

    Refuses wrong values, and keys that a dataclass does not have; a `TypedDict` may have others. Messages call the
    values `what`: `The configuration`.
    """
    try:
        return _CONVERTER.structure(values, kind)
    except (BaseValidationError, _WrongKind) as error:
        raise ValueError(_message(error, "", what)) from None


def read_checked(path: Path, make: Callable[[str], T], remedy: str) -> T:
    """What `make` makes of the text in a file; what it refuses is refused by the name of the file, with the remedy."""
    try:
        return make(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also for what is not JSON, or not UTF-8
        reason = str(error).rstrip(".")
        raise ValueError(f"{path} is damaged or of another version ({reason}): {remedy}.") from None


def unstructure(value: Any) -> Any:
    """The plain values of an instance of a dataclass."""
    return _CONVERTER.unstructure(value)


def tagged(union: Any, kinds: Mapping[str, type]) -> None:
    """Let each member of a union of dataclasses be chosen by its `name`, which is a class variable or a field.

    One class may have several names, which cattrs's own tagged unions do not allow.
    """

    def build(values: Any, _: Any) -> Any:
        values = _dictionary(values)
        name = values.get("name")
        try:
            check_choice("name", name, kinds)
        except ValueError as error:
            raise _WrongKind(f".{error}") from None
        has_field = "name" in _names(kinds[name])
        return _CONVERTER.structure({key: values[key] for key in values if key != "name" or has_field}, kinds[name])

    def take_apart(value: Any) -> dict[str, Any]:
        return {"name": value.name, **_CONVERTER.unstructure(value, type(value))}

    _CONVERTER.register_structure_hook(union, build)
    _CONVERTER.register_unstructure_hook(union, take_apart)


class _WrongKind(TypeError):
    """A value is of a wrong kind; the message continues after its name."""


def _message(error: BaseException, place: str, what: str) -> str:
    """What is wrong first, with its full name."""
    if isinstance(error, BaseValidationError):
        first = error.exceptions[0]
        for note in getattr(first, "__notes__", ()):
            key = note.name.removesuffix("_") if isinstance(note, AttributeValidationNote) else note.index
            if isinstance(key, str):  # numbers are positions in a list
                return _message(first, f"{place}.{key}" if place else key, what)
        return _message(first, place, what)
    if isinstance(error, ForbiddenExtraKeysError):
        key, known = sorted(error.extra_fields)[0], [name.removesuffix("_") for name in _names(error.cl)]
        prefix = f"{place}." if place else ""
        near = difflib.get_close_matches(key, known, n=1)
        others = f"Known are: {', '.join(known)}." if known else "Leave it out: there are no settings here."
        hint = f"Did you mean {prefix}{near[0]}?" if near else others
        return f"{what} has no key {prefix}{key}. {hint}"
    if isinstance(error, KeyError):
        return f"{what} lacks {place or error.args[0]}."
    if isinstance(error, _WrongKind):
        text = str(error)  # about a key in it, if it begins with a dot
        return f"{place}{text}" if place and text.startswith(".") else f"{place or what} {text.removeprefix('.')}"
    return f"{place or what}: {error}" if str(error).startswith("expected a mapping") else str(error)


def _names(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


# ---- how cattrs reads and writes kinds of values


def _dictionary(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise _WrongKind(f"must be a dictionary, not {shown(values)}.")
    return values


def _exactly(kind: type) -> Callable[[Any, Any], Any]:
    def check(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise _WrongKind(f"must be of type {kind.__name__}, not {shown(value)}.")
        return value

    return check


def _word(value: Any, _: Any) -> str | int:
    if type(value) not in (str, int, bool):
        raise _WrongKind(f"must be a word or a whole number, not {shown(value)}.")
    return value  # type: ignore[no-any-return]


def _number(value: Any, _: Any) -> float:
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _WrongKind(f"must be a number, not {shown(value)}.")
    return number


def _choice(value: Any, hint: Any) -> Any:
    choices = typing.get_args(hint)
    if not (isinstance(value, str) and value in choices):
        raise _WrongKind(f"must be one of {', '.join(map(str, choices))}, not {shown(value)}.")
    return value


def _tuple(values: Any, hint: Any) -> tuple[Any, ...]:
    kinds = typing.get_args(hint)
    if not isinstance(values, list | tuple):
        raise _WrongKind(f"must be a list, not {shown(values)}.")
    kinds = kinds[:1] * len(values) if kinds[-1] is Ellipsis else kinds
    if len(values) != len(kinds):
        raise _WrongKind(f"must have {len(kinds)} items, not {len(values)}.")
    return tuple(_CONVERTER.structure(value, kind) for value, kind in zip(values, kinds, strict=True))


def _list(hint: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    read = list_structure_factory(hint, converter)

    def check(values: Any, _: Any) -> Any:
        if not isinstance(values, list):  # cattrs takes whatever can be iterated
            raise _WrongKind(f"must be a list, not {shown(values)}.")
        return read(values, hint)

    return check


def _mapping(hint: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    read = make_mapping_structure_fn(hint, converter)
    return lambda values, _: read(_dictionary(values), hint)


def _renamed(kind: type) -> dict[str, Any]:
    """Fields that end with an underscore, because Python has their name for itself, are without it in JSON."""
    return {name: override(rename=name[:-1]) for name in _names(kind) if name.endswith("_")}


def _left_out(kind: Any) -> dict[str, Any]:
    """Fields that are not written while they have their default."""
    fields = [field.name for field in dataclasses.fields(kind) if field.metadata == LEFT_OUT]
    return {name: override(omit_if_default=True) for name in fields}


def _reader(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    read = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True, **_renamed(kind))
    return lambda values, _: read(_dictionary(values), kind)


def _has_origin(origin: Any) -> Callable[[Any], bool]:
    return lambda hint: typing.get_origin(hint) is origin


_CONVERTER = Converter()
_CONVERTER.register_structure_hook_factory(dataclasses.is_dataclass, _reader)
_CONVERTER.register_unstructure_hook_factory(
    dataclasses.is_dataclass,
    lambda kind: make_dict_unstructure_fn(kind, _CONVERTER, **_renamed(kind), **_left_out(kind)),
)
for _kind in (int, bool, str):
    _CONVERTER.register_structure_hook(_kind, _exactly(_kind))
_CONVERTER.register_structure_hook(float, _number)
_CONVERTER.register_structure_hook(str | int, _word)
_CONVERTER.register_structure_hook_func(_has_origin(Literal), _choice)
_CONVERTER.register_structure_hook_func(_has_origin(tuple), _tuple)
_CONVERTER.register_structure_hook_factory(_has_origin(list), _list)
_CONVERTER.register_structure_hook_factory(_has_origin(dict), _mapping)
