"""Walks as Markov chains that are watched (paper, sections 2.1 and 3).

A state is what the future of a walk depends on; an observation is one row of the walk feature matrix X(G, W).

Masses are integers: a step of every graph is divided into `unit` equal shares, a start into `start_unit`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal, get_args

from crawl.checks import MAX_COUNT, check_choice, whole_number
from crawl.theory.simple import AnyGraph, neighbours

WalkStrategy = Literal["uniform", "non_backtracking"]
MAX_STATES = 400_000
MAX_STEPS = 100_000  # numbers of walks have as many digits, and are added as often

# A state, whatever it is made of, and its moves: what is observed, with how many shares, and the next state.
_State = Hashable
_Moves = Iterator[tuple[Hashable, int, _State]]
ClassMoves = dict[int, list[tuple[Hashable, int, int]]]  # for each class of states: (observation, class, shares)


class TooLarge(ValueError):
    """An exact computation would not fit. The message has the number of states or walks it would need."""


def written(number: int) -> str:
    """A number for a message: in full up to 30 digits, else its order of magnitude."""
    if number < 10**30:
        return f"{number:,}"
    return f"about 10^{round((number.bit_length() - 0.5) * math.log10(2))}"


@dataclass(frozen=True)
class Steps:
    """The exact step law of a graph."""

    neighbours: list[tuple[int, ...]]
    avoids_previous: bool  # non-backtracking: not to the previous node, unless there is no other

    @classmethod
    def of(cls, graph: AnyGraph, strategy: WalkStrategy) -> Steps:
        """The steps of a strategy on a graph, which must have an edge."""
        check_choice("strategy", strategy, get_args(WalkStrategy))
        steps = cls(neighbours(graph), strategy == "non_backtracking")
        if not steps.starts:
            raise ValueError("The graph has no edge, so there are no walks on it.")
        return steps

    @property
    def starts(self) -> list[int]:
        """The nodes a walk may start at, all alike: those with an edge."""
        return [node for node, others in enumerate(self.neighbours) if others]

    def choices(self, node: int, previous: int | None) -> tuple[int, ...]:
        """The next nodes, all alike."""
        others = self.neighbours[node]
        if not self.avoids_previous or previous is None or len(others) == 1:
            return others
        return tuple(other for other in others if other != previous)

    @property
    def unit(self) -> int:
        """The least number of shares that all numbers of choices divide."""
        degrees = {len(others) for others in self.neighbours if others}
        numbers = degrees | {degree - 1 for degree in degrees if degree > 1} if self.avoids_previous else degrees
        return math.lcm(*numbers)


def count_walks(graph: AnyGraph, num_steps: int, strategy: WalkStrategy = "uniform") -> int:
    """The number of different walks with this many steps."""
    num_steps = whole_number("num_steps", num_steps, 0, MAX_STEPS)
    return deque(_walk_counts(Steps.of(graph, strategy), num_steps), maxlen=1).pop()


def _walk_counts(steps: Steps, num_steps: int) -> Iterator[int]:
    """The numbers of walks with 0, 1, …, num_steps steps."""
    yield len(steps.starts)
    if num_steps == 0:
        return
    # Walks by their last step, so that a non-backtracking one knows where it came from.
    walks = {(u, v): 1 for u in steps.starts for v in steps.neighbours[u]}
    yield len(walks)
    avoids = [steps.avoids_previous and len(others) > 1 for others in steps.neighbours]
    for _ in range(num_steps - 1):
        ends = [0] * len(steps.neighbours)
        for (_, v), number in walks.items():
            ends[v] += number
        # Every walk that ends at v continues to w, unless it came from there and must not go back.
        walks = {(v, w): ends[v] - walks[w, v] if avoids[v] else ends[v] for v, w in walks}
        yield sum(walks.values())


class Chain:
    """The watched chain of several graphs, its states numbered in the order in which walks first reach them.

    Attributes:
        starts: For each graph, the shares of the states a walk starts in; together `start_unit`.
        moves: For each state, what may come next: (observation, shares, state).
        unit: The shares of a step.
        start_unit: The shares of a start.
        reached: `reached[t]` states are reached within t steps.
        is_closed: Whether there are no others, however long the walk is.
    """

    def __init__(
        self,
        graphs: list[Steps],
        start: Callable[[int, int], _State],
        move: Callable[[_State, int], _Moves],
        num_steps: int | None,
        max_states: int,
    ) -> None:
        self.unit = math.lcm(*(steps.unit for steps in graphs))
        self.start_unit = math.lcm(*(len(steps.starts) for steps in graphs))
        number: dict[_State, int] = {}
        self.starts: list[dict[int, int]] = []
        for i, steps in enumerate(graphs):
            share = self.start_unit // len(steps.starts)
            self.starts.append({number.setdefault(start(i, v), len(number)): share for v in steps.starts})
        states = list(number)
        if len(states) > max_states:
            raise TooLarge(f"{len(states):,} states to start in; at most {max_states:,} fit.")
        self.moves: list[list[tuple[Hashable, int, int]]] = []
        self.reached = [len(states)]
        while len(self.moves) < len(states) and (num_steps is None or len(self.reached) <= num_steps):
            for state in states[len(self.moves) : self.reached[-1]]:
                out = []
                for observation, shares, following in move(state, self.unit):
                    if (i := number.setdefault(following, len(number))) == len(states):
                        states.append(following)
                        if len(states) > max_states:
                            raise TooLarge(f"More than {max_states:,} states within {len(self.reached)} steps.")
                    out.append((observation, shares, i))
                self.moves.append(out)
            self.reached.append(len(states))
        self.is_closed = len(self.moves) == len(states)
        self._rounds: list[list[int]] = []

    def classes(self, num_steps: int | None = None) -> list[list[int]]:
        """For r = 0, 1, …, a number for each state: states with equal numbers have the same law of r observations.

        Only for states from which r steps are left, that is, reached within num_steps - r. When a round changes
        nothing, the list ends: all further ones would be like its last. With None, for all lengths; the chain must be
        closed.
        """
        if self.is_closed:
            num_steps = None
        assert self.is_closed or num_steps is not None
        if self._rounds and num_steps is None:
            return self._rounds
        rounds = [[0] * self.reached[-1]]
        num_classes = 1
        while num_steps is None or len(rounds) <= num_steps:
            count = len(self.moves) if num_steps is None else self.reached[num_steps - len(rounds)]
            number_of: dict[Hashable, int] = {}
            signatures = (frozenset(_merged_moves(self.moves[state], rounds[-1]).items()) for state in range(count))
            rounds.append([number_of.setdefault(signature, len(number_of)) for signature in signatures])
            if num_steps is None and len(number_of) == num_classes:
                self._rounds = rounds[:-1]
                return self._rounds
            num_classes = len(number_of)
        return rounds

    def unrolled(self, num_steps: int) -> tuple[list[Counter[int]], Iterator[ClassMoves]]:
        """For walks of this many steps, `start_classes`, and `class_moves` of every step."""
        rounds = self.classes(num_steps)
        classes = [rounds[min(left, len(rounds) - 1)] for left in reversed(range(num_steps + 1))]
        return self.start_classes(classes[0]), itertools.starmap(self.class_moves, pairwise(classes))

    def class_moves(self, here: list[int], after: list[int]) -> ClassMoves:
        """For each class of states, what may come next. `here` has a step more to go than `after`."""
        moves: ClassMoves = {}
        for state, class_ in enumerate(here):
            if class_ not in moves:
                merged = _merged_moves(self.moves[state], after)
                moves[class_] = [(observation, next_, shares) for (observation, next_), shares in merged.items()]
        return moves

    def start_classes(self, classes: list[int]) -> list[Counter[int]]:
        """For each graph, the shares of the classes a walk starts in."""
        out = [Counter[int]() for _ in self.starts]
        for shares_of, starts in zip(out, self.starts, strict=True):
            for state, shares in starts.items():
                shares_of[classes[state]] += shares
        return out


def _merged_moves(moves: list[tuple[Hashable, int, int]], classes: list[int]) -> dict[tuple[Hashable, int], int]:
    """The shares of each (observation, class of the next state)."""
    shares = Counter[tuple[Hashable, int]]()
    for observation, share, state in moves:
        shares[observation, classes[state]] += share
    return shares


def window_chain(
    graphs: list[AnyGraph],
    window_size: int,
    strategy: WalkStrategy,
    num_steps: int | None = None,
    max_states: int = MAX_STATES,
) -> Chain:
    """The chain whose state is what a window holds and whose observations are codes as in `Walks.code`.

    A state is the graph and the last s nodes; two for a non-backtracking walk if s is smaller.

    Raises:
        TooLarge: If there are more states than fit.
    """
    max_states = whole_number("max_states", max_states, 0, MAX_COUNT)
    steps = [Steps.of(graph, strategy) for graph in graphs]
    memory = max(window_size, 2 if strategy == "non_backtracking" else 1)
    if (fewest := sum(len(each.starts) for each in steps)) > max_states:
        raise TooLarge(f"A window has at least {fewest:,} states on these graphs; at most {max_states:,} fit.")
    longest = memory - 1 if num_steps is None else min(memory - 1, num_steps)
    needed = sum(sum(_walk_counts(each, longest)) for each in steps)
    if needed > max_states:
        raise TooLarge(
            f"A window of {window_size} has {written(needed)} states on these graphs; at most {max_states:,} fit. "
            "Take a smaller window or shorter walks, or estimate from samples."
        )
    adjacent = [[frozenset(others) for others in each.neighbours] for each in steps]

    def move(state: _State, unit: int) -> _Moves:
        assert isinstance(state, tuple)
        graph, *nodes = state
        choices = steps[graph].choices(nodes[-1], nodes[-2] if len(nodes) > 1 else None)
        recent = tuple(nodes[1:] if len(nodes) == memory else nodes)
        for v in choices:
            code, edges = 0, adjacent[graph][v]
            for j, u in enumerate(reversed(nodes[-window_size:] if window_size else []), start=1):
                if u == v:
                    code |= 1 << (j - 1)
                elif j > 1 and u in edges:
                    code |= 1 << (window_size + j - 2)
            yield code, unit // len(choices), (graph, *recent, v)

    return Chain(steps, lambda graph, v: (graph, v), move, num_steps, max_states)


def pattern_chain(
    graphs: list[AnyGraph], strategy: WalkStrategy, num_steps: int, max_states: int = MAX_STATES
) -> Chain:
    """The chain for a window as long as the walk, by first visits.

    All that such a window ever tells is which of the nodes seen before is visited, or, at a first visit, which of them
    are adjacent. A state is the seen nodes, in an order that depends on the graph they induce rather than on the walk,
    with the current one and, if the strategy asks for it, the previous one marked. Given the rows before, observations
    and rows of X(G, W) determine each other.

    Raises:
        TooLarge: If there are more states than fit.
    """
    max_states = whole_number("max_states", max_states, 0, MAX_COUNT)
    steps = [Steps.of(graph, strategy) for graph in graphs]
    adjacent = [[frozenset(others) for others in each.neighbours] for each in steps]
    order_of = cache(_order)

    def ordered(graph: int, nodes: list[int], here: int, previous: int | None) -> _State:
        """The state, its nodes in an order that only depends on the graph among them and the marks."""
        mask = tuple(sum(1 << i for i, u in enumerate(nodes) if u in adjacent[graph][v]) for v in nodes)
        marks = (nodes.index(here), None if previous is None else nodes.index(previous))
        return (graph, tuple(nodes[i] for i in order_of(mask, marks)), here, previous)

    def move(state: _State, unit: int) -> _Moves:
        assert isinstance(state, tuple)
        graph, nodes, here, previous = state
        choices = steps[graph].choices(here, previous)
        for v in choices:
            if v in nodes:
                observation, seen = nodes.index(v), list(nodes)
            else:
                near = sum(1 << i for i, u in enumerate(nodes) if u in adjacent[graph][v])
                observation, seen = -1 - near, [*nodes, v]
            following = ordered(graph, seen, v, here if steps[graph].avoids_previous else None)
            yield observation, unit // len(choices), following

    return Chain(steps, lambda graph, v: (graph, (v,), v, None), move, num_steps, max_states)


def _order(mask: tuple[int, ...], marks: tuple[int | None, ...]) -> list[int]:
    """An order of the nodes by refined colours; ties are broken by position, so it need not be canonical."""
    n = len(mask)
    others = [[j for j in range(n) if mask[i] >> j & 1] for i in range(n)]
    color = [[*marks].index(i) + 1 if i in marks else 0 for i in range(n)]
    while True:
        signature = [(color[i], sorted(color[j] for j in others[i])) for i in range(n)]
        ranked = sorted(range(n), key=lambda i: signature[i])
        refined, rank = [0] * n, 0
        for before, i in pairwise([ranked[0], *ranked]):
            rank += signature[before] != signature[i]
            refined[i] = rank
        if rank == n - 1:
            return ranked
        if refined == color:  # stable: single out the first node of the first colour that several share
            shared = min(c for c in refined if refined.count(c) > 1)
            refined = [2 * c + (c == shared and i != refined.index(shared)) for i, c in enumerate(refined)]
        color = refined
