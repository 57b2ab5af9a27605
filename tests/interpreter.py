"""Triton's interpreter without what it does again and again: most of its time goes into types, not into numbers.

What it computes stays the same, and so does what it refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter


def _skip_checks_of_overflow() -> None:
    """It computes whether additions and products overflow, and, without `debug`, never looks at the outcome."""
    assert not interpreter.interpreter_builder.options.debug
    interpreter.interpreter_builder.options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)


def _replace_the_language_once() -> None:
    """A kernel, and each call of a function in it, replaces the functions of the language until the kernel ends.

    Where a kernel around it has done so, that has no effect, but it would take half of the time.
    """
    patch_language = interpreter._patch_lang

    @cache
    def languages(function: Callable) -> list[ModuleType]:
        language, seen = interpreter.tl, {id(value) for value in function.__globals__.values()}
        return [module for module in (language, language.core) if id(module) in seen]

    def patch_language_once(function: Callable) -> interpreter._LangPatchScope:
        is_done = not any(core.is_builtin(language.load) for language in languages(function))
        return interpreter._LangPatchScope() if is_done else patch_language(function)

    interpreter._patch_lang = patch_language_once


def _remember_types() -> None:
    """Each operation makes the types of its operands and of what it returns: of each shape there is one to copy."""
    begin_block, begin_tensor = core.block_type.__init__, core.tensor.__init__
    blocks: dict[tuple, dict[str, Any]] = {}
    tensors: dict[str, dict[str, Any]] = {}

    def block(self: core.block_type, element_ty: core.dtype, shape: Any) -> None:
        key = (element_ty.name, *(size.value if isinstance(size, core.constexpr) else size for size in shape))
        if key in blocks:
            self.__dict__.update(blocks[key])
            self.element_ty = element_ty
        else:
            begin_block(self, element_ty, shape)
            blocks[key] = vars(self).copy()

    def tensor(self: core.tensor, handle: Any, type: core.dtype) -> None:
        if type.name in tensors:
            self.__dict__.update(tensors[type.name])
            self.handle, self.type, self.dtype = handle, type, type.scalar
        else:
            begin_tensor(self, handle, type)
            tensors[type.name] = {name: value for name, value in vars(self).items() if name != "handle"}

    core.block_type.__init__, core.tensor.__init__ = block, tensor

    find_dtype = interpreter._get_np_dtype
    dtypes: dict[str, np.dtype] = {}

    def numpy_dtype(type: core.dtype) -> np.dtype:
        name = type.scalar.name
        if name not in dtypes:
            dtypes[name] = find_dtype(type)
        return dtypes[name]

    interpreter._get_np_dtype = numpy_dtype


def _broadcast_in_numbers() -> None:
    """Shapes are compared and combined as lists of numbers, not of Triton's constants."""
    broadcast = TritonSemantic.broadcast_impl_value

    def broadcast_numbers(
        self: TritonSemantic, left: core.tensor, right: core.tensor
    ) -> tuple[core.tensor, core.tensor]:
        ours, theirs = (each.type.shape.values if each.type.is_block() else [] for each in (left, right))
        if ours == theirs:
            return left, right
        if len(ours) != len(theirs) or any(a != b and 1 not in (a, b) for a, b in zip(ours, theirs, strict=True)):
            return broadcast(self, left, right)
        shape = [max(sizes) for sizes in zip(ours, theirs, strict=True)]

        def spread(value: core.tensor, sizes: list[int]) -> core.tensor:
            if sizes == shape:
                return value
            handle = self.builder.create_broadcast(value.handle, shape)
            return self.make_tensor(handle, core.block_type(value.dtype, shape))

        return spread(left, ours), spread(right, theirs)

    TritonSemantic.broadcast_impl_value = broadcast_numbers


def _replace_functions_from_a_list() -> None:
    """The functions that a kernel replaces are looked for once, and called without a function around each."""
    semantic = interpreter.interpreter_semantic

    def interpreted(builtin: Callable) -> Callable:
        function = getattr(builtin, "__wrapped__", builtin)
        return lambda *args, **kwargs: function(*args, **{**kwargs, "_semantic": semantic})

    @cache
    def replacements(owner: object) -> list[tuple[str, Callable]]:
        members = inspect.getmembers(owner)
        return [(name, interpreted(member)) for name, member in members if core.is_builtin(member)]

    def patch_builtin(owner: object, builder: object, scope: interpreter._LangPatchScope) -> None:
        for name, function in replacements(owner):
            scope.set_attr(owner, name, function)

    interpreter._patch_builtin = patch_builtin


@cache
def make_quick() -> None:
    """Let the interpreter remember what it would find out again, from now on."""
    _skip_checks_of_overflow()
    _replace_the_language_once()
    _remember_types()
    _broadcast_in_numbers()
    _replace_functions_from_a_list()
