"""Packages whose names are imported when they are first asked for, so that the command line answers without torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy(package: str, names: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package (PEP 562): its public names, and its modules.

    Args:
        package: The `__name__` of the package.
        names: For each module, the public names that are defined there.
    """
    places = {name: module for module, members in names.items() for name in members}

    def get(name: str) -> Any:
        if name in places:
            value = getattr(import_module(places[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names_of_package() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return get, names_of_package
