"""A few hundred of the cases that `make fuzz` runs, and what the harness itself must be able to tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import crawl
from tests.fuzz import api, commands
from tests.fuzz.oracle import judge_call, judge_command
from tests.fuzz.run import run_cases
from tests.fuzz.world import World

NUM_CALLS, NUM_COMMANDS = 3 * len(api.TARGETS), 60


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("name", api.TARGETS)
def test_good_arguments_give_a_result(name: str, world: World) -> None:
    kind, outcome = judge_call(api.good_call(name, world), api.SECONDS)
    assert kind == "result", outcome
    assert api.implausible(outcome) is None


def test_everything_public_is_called() -> None:
    called = {name.partition(".")[0] for name in api.TARGETS} | {name.rpartition(".")[2] for name in api.TARGETS}
    not_called = {
        "CycleCounts",
        "Estimate",
        "Refinement",
        "Seen",
        "TooLarge",
        "TupleRefinement",
        "WalkStrategy",
        "Result",
        "Level",
    }
    without_arguments = {"rook", "shrikhande", "wagner", "GivenData", "Constant", "Cosine", "CosinePerStep", "OneCycle"}
    for module in (crawl, crawl.data, crawl.encodings, crawl.training, crawl.runs, crawl.theory):
        assert set(module.__all__) - called - not_called - without_arguments <= {
            "Experiment",
            "Predictions",
            "Segments",
        }


@pytest.mark.parametrize(("kind", "number"), [("api", NUM_CALLS), ("cli", NUM_COMMANDS)])
def test_hostile_cases_are_answered_or_refused(kind: str, number: int) -> None:
    outcomes = list(run_cases(kind, 0, number, seed=0))
    assert len(outcomes) == number
    assert [outcome for outcome in outcomes if outcome.kind == "failed"] == []
    assert sum(outcome.kind == "refused" for outcome in outcomes) > number / 4


def test_a_case_is_the_same_whatever_came_before(world: World) -> None:
    def calls(seed: int, *cases: int) -> list[tuple[str, list[str]]]:
        made = [api.make_call(case, seed, world) for case in cases]
        return [(call.name, [f"{name}: {type(call.arguments[name])}" for name in call.changed]) for call in made]

    cases = range(30)
    assert calls(0, *reversed(cases)) == calls(0, *cases)[::-1]
    assert calls(1, *cases) != calls(0, *cases)
    assert commands.make_command(7, 0, world) == commands.make_command(7, 0, world)


def _never_ends() -> None:
    while True:
        pass


def test_the_oracle_knows_our_errors_from_others() -> None:
    assert judge_call(lambda: crawl.Graph.from_edge_index(5), 5)[0] == "refused"  # type: ignore[arg-type]
    assert judge_call(lambda: torch.zeros(-1), 5)[0] == "failed"
    assert judge_call(lambda: int("a"), 5)[0] == "failed"
    assert judge_call(_never_ends, 0.2)[1].startswith("TimeUp")
    assert judge_call(lambda: 5, 5) == ("result", 5)
    assert api.implausible(torch.tensor([np.nan])) is not None


def test_the_oracle_reads_exit_codes_and_error_lines(tmp_path: Path) -> None:
    assert judge_command(lambda: 0, 5) == ("result", 0)
    assert judge_command(lambda: 1, 5)[0] == "failed"
    assert judge_command(lambda: 2, 5)[0] == "failed"  # without a line that says why
    assert judge_command(lambda: crawl.cli.main(["info", str(tmp_path)]), 20)[0] == "refused"
    assert judge_command(lambda: crawl.cli.main(["info", "--nope"]), 20) == ("refused", "a box of tyro")
