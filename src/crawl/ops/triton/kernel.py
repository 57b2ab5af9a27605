"""What makes a kernel of a function; functions that kernels call are `triton.jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton


def kernel(*not_specialised: str) -> Callable[[Callable[..., None]], Any]:
    """`triton.jit`, with a product and a sum rounded together, whatever a release of Triton does by itself.

    Releases before 3.10 do that, 3.9 with a warning, and later ones do not, so that results would differ in their bits.

    Args:
        not_specialised: Arguments that change from launch to launch, for which nothing shall be compiled anew.
    """

    def compiled(function: Callable[..., None]) -> Any:
        made = triton.jit(function, do_not_specialize=list(not_specialised))

        def run(*args: Any, **how: Any) -> Any:
            return type(made).run(made, *args, enable_fp_fusion=True, **how)

        made.run = run
        return made

    return compiled
