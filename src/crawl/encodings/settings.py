"""Which structural encodings the network of a training gets. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawl.checks import truth, whole_number
from crawl.plain import LEFT_OUT

MAX_STEPS = 1000
LONGEST_CYCLE = 32


@dataclass(frozen=True)
class Encodings:
    """Structural encodings, computed once for a whole data set; 0 leaves one out.

    Attributes:
        return_steps: On nodes, the probabilities that a walk is back after 1 to this many steps (RWSE).
        walk_steps: On edges, the probabilities that a walk from one end is at the other after 1 to this many steps
            (RRWP, together with return_steps).
        longest_cycle: On nodes and edges, the square root of the number of cycles through them, for each length from
            3 to this one.
        degree: On nodes, the logarithm of 1 + their degree.
    """

    return_steps: int = 0
    walk_steps: int = 0
    longest_cycle: int = 0
    degree: bool = field(default=False, metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        for name, most in {"return_steps": MAX_STEPS, "walk_steps": MAX_STEPS, "longest_cycle": LONGEST_CYCLE}.items():
            whole_number(f"encodings.{name}", getattr(self, name), 0, most)
        if self.longest_cycle in (1, 2):
            raise ValueError(f"encodings.longest_cycle must be 3 or more, or 0 for none, not {self.longest_cycle}.")
        truth("encodings.degree", self.degree)

    def __str__(self) -> str:
        """As in `return probabilities of 20 steps, cycles of 3 to 6 edges`; empty for none."""
        parts = {
            f"return probabilities of {self.return_steps} steps": self.return_steps,
            f"walk probabilities of {self.walk_steps} steps": self.walk_steps,
            f"cycles of 3 to {self.longest_cycle} edges": self.longest_cycle,
            "degrees": self.degree,
        }
        return ", ".join(name for name, is_there in parts.items() if is_there)

    @property
    def node_width(self) -> int:
        """The number of columns on nodes."""
        return self.return_steps + max(self.longest_cycle - 2, 0) + self.degree

    @property
    def edge_width(self) -> int:
        """The number of columns on edges."""
        return self.walk_steps + max(self.longest_cycle - 2, 0)
