"""`crawl explain`: which atoms, bonds and connected subgraphs the predictions of a trained model are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as numbers_from
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from crawl.checks import shown, whole_number
from crawl.cli.flags import FilePath, Float, Int, Word, Words
from crawl.cli.inputs import WithInput, counter, say_unknown
from crawl.cli.output import STDOUT, is_stream, open_output, say

if TYPE_CHECKING:
    from crawl.data.features import Unknown
    from crawl.explanations import Explanation, Subject
    from crawl.runs import TrainedModel

_MOST_ROWS = 100


@dataclass(frozen=True, kw_only=True)
class Explain(WithInput):
    """Explain predictions of a trained model: a page with pictures, for each row of the input.

    It says how much each node and edge adds to a prediction, and which connected subgraphs, that walks went through,
    add most, with a spread over walks. A row that cannot be read has the reason in its place. The page is one file, and
    asks nobody for anything.

    Attributes:
        input: A CSV file with SMILES (.gz is fine), a folder in the TU format, one of GraphML or JSON files with
            labels.csv, or without, one of crawl data pack, or, for a model of nodes that was trained with batches of
            the full graph, one with nodes.csv and edges.csv; targets are not looked at.
        output: An HTML file.
        target: Which number to explain: the name of a target, class or label. The only one, the second of two classes
            or the most probable of several when not given.
        rows: Which rows of the input, counted from 1, such as 1-10 or 3,7,20-25; the first ten when not given.
        ids: For a model of nodes, which of them, by the column id of nodes.csv.
        atoms: For a model of atoms, which of them in each row, counted from 0 as in the lists of crawl predict.
        top: Subgraphs to show.
        num_points: Points of each integral; more make the residual smaller.
        json: Also write everything as JSON.
    """

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")]
    target: Word = None
    rows: Word = None
    ids: Words = ()
    atoms: Words = ()
    top: int = 5
    num_points: int = 32
    json: FilePath = None
    batch_size: tyro.conf.Suppress[Int] = None  # what is explained comes one by one
    memory: tyro.conf.Suppress[Float] = None
    only: tyro.conf.Suppress[Path | None] = None

    def run(self) -> None:
        """Read, explain and write."""
        whole_number("--top", self.top, 1, 100)
        whole_number("--num-points", self.num_points, 1, 4096)
        if not is_stream(self.output) and self.output.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"Explanations are a page: give a name that ends in .html, not {self.output}.")
        chosen = chosen_rows("1-10" if self.rows is None else self.rows)
        self.check_input(self.output)
        if self.json is not None:
            self.check_input(self.json)
        trained = self.load()
        from crawl.data.features import Unknown
        from crawl.explanations import Subject
        from crawl.explanations.page import explanation_page

        unknown = Unknown()
        subject = Subject(trained, self.target, num_steps=self.num_steps, seed=self.seed)
        is_of_nodes = self.is_of_one_graph(trained)
        is_of_atoms = not is_of_nodes and trained.features.task.level == "node"
        if is_of_atoms and not self.atoms:
            raise ValueError(f"{self.run_folder} predicts atoms: say which to explain, as by --atoms 0 2.")
        if self.atoms and not is_of_atoms:
            raise ValueError("The model does not predict atoms, so --atoms cannot change anything: leave it out.")
        if (number := sum(map(len, chosen)) * len(chosen_atoms(self.atoms))) > _MOST_ROWS:
            raise ValueError(f"A page shows {_MOST_ROWS} atoms at most, but --rows and --atoms name {number}.")
        if is_of_nodes and not self.ids:
            raise ValueError(
                "The model predicts nodes: say which to explain by --ids, as in the column id of nodes.csv."
            )
        if is_of_nodes and self.rows is not None:
            raise ValueError("The model predicts nodes: choose them by --ids, and leave out --rows.")
        if self.ids and not is_of_nodes:
            raise ValueError("The model predicts graphs, so --ids cannot change anything: choose --rows.")
        found = self._of_nodes if is_of_nodes else self._of_rows
        explained = []
        with counter() as count:
            for each in found(subject, trained, unknown, chosen):
                explained.append(each)
                count(1)
        if not any(not isinstance(each, str) for _, each in explained):
            first = (
                f" The first of {len(explained)} cannot be explained because: {explained[0][1]}." if explained else ""
            )
            raise ValueError(f"No row of {self.input} was explained.{first}")
        title = f"Why? {trained.experiment.name}"
        with open_output(self.output) as file:
            file.write(
                explanation_page(explained, title=title, subtitle=f"{self.run_folder.name} on {self.input.name}")
            )
        if self.json is not None:
            listed = [{"name": name, **_as_json(each)} for name, each in explained]
            with open_output(self.json) as file:
                file.write(json.dumps({"format": "crawl-explanations-1", "rows": listed}, indent=1) + "\n")
        say_unknown(unknown)
        num_bad = sum(isinstance(each, str) for _, each in explained)
        bad = f", {num_bad} not explained (the page says why)" if num_bad else ""
        say(f"{len(explained)} rows{bad}" + ("" if self.output == STDOUT else f" → {self.output}"))

    def _of_rows(
        self, subject: Subject, trained: TrainedModel, unknown: Unknown, chosen: list[range]
    ) -> Iterator[tuple[str, Explanation | str]]:
        """The name of each row that was chosen, and its explanation or the reason why there is none."""
        from crawl.data import GraphStore
        from crawl.explanations import explain_subject

        columns, rows = self.table(trained, unknown)
        smiles = () if self.input.is_dir() else self._smiles_columns(trained, columns)
        last = max(each.stop for each in chosen)
        number = 0
        for number, (cells, graph) in zip(numbers_from(1), rows, strict=False):
            if number >= last:
                return
            if not any(number in each for each in chosen):
                continue
            name = ".".join(cells[column] for column in smiles) if smiles else cells["graph"]
            title = f"{number}. {name or '(empty)'}"
            if isinstance(graph, str):
                yield title, graph
                continue
            store = trained.features.encoded(GraphStore.from_graphs([graph]), unknown)
            self.check_unknown(unknown)
            own = name if smiles else None
            for atom in chosen_atoms(self.atoms) or (None,):
                place = title if atom is None else f"{title}, atom {atom}"
                try:
                    if atom is not None and atom >= store.num_nodes:
                        raise ValueError(f"it has no atom {atom}: its atoms are 0 to {store.num_nodes - 1}")
                    yield place, explain_subject(subject, store.graph(0), node=atom, smiles=own, **self._how)
                except ValueError as error:
                    yield place, str(error)
        if self.rows is not None and number < last - 1:
            beyond = [row for each in chosen for row in each if row > number]
            there = "is no row" if len(beyond) == 1 else "are no rows"
            say(f"There {there} {_listed(beyond)}: {self.input} has {number}.")

    def _of_nodes(
        self, subject: Subject, trained: TrainedModel, unknown: Unknown, chosen: list[range]
    ) -> Iterator[tuple[str, Explanation | str]]:
        """The id of each node that was chosen, and its explanation."""
        from torch_geometric.data import Data

        from crawl.explanations import explain_subject

        _, rows, store = self.nodes(trained, unknown)
        places = {cells["id"]: place for place, cells in enumerate(rows)}
        if missing := [name for name in self.ids if name not in places]:
            raise ValueError(
                f"{self.input} has no node with the id {shown(missing[0])}: --ids names those in nodes.csv."
            )
        data = Data(x=store.x, edge_index=store.edge_index, edge_attr=store.edge_attr, num_nodes=store.num_nodes)
        for name in self.ids:
            yield f"node {name}", explain_subject(subject, data, node=places[name], **self._how)

    @property
    def _how(self) -> dict[str, Any]:
        return {"num_repeats": self.num_repeats, "top": self.top, "num_points": self.num_points}

    def _smiles_columns(self, trained: TrainedModel, columns: Sequence[str]) -> tuple[str, ...]:
        from crawl.runs.sources import Csv

        data = trained.experiment.data
        given = self.smiles or (data.smiles if isinstance(data, Csv) else ())
        return given or tuple(name for name in columns if name.lower() == "smiles")


def chosen_atoms(words: Sequence[str]) -> tuple[int, ...]:
    """The atoms that words name, each once. Refuses what are not numbers from 0."""
    if wrong := [word for word in words if not re.fullmatch(r"\d{1,9}", word, re.ASCII)]:
        raise ValueError(f"--atoms are numbers from 0, such as 0 2, not {shown(wrong[0])}.")
    return tuple(dict.fromkeys(map(int, words)))


def chosen_rows(text: str) -> list[range]:
    """The rows that a text such as `1-10` or `3,7,20-25` names. Refuses others, and more than a page can show."""
    chosen = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?\s*", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise ValueError(f"--rows are numbers from 1 and ranges of them, such as 1-10 or 3,7,20-25, not {text!r}.")
        chosen.append(range(first, last + 1))
    if sum(map(len, chosen)) > _MOST_ROWS:
        raise ValueError(f"A page shows {_MOST_ROWS} rows at most, but --rows names {sum(map(len, chosen))}.")
    return chosen


def _listed(rows: Sequence[int], at_most: int = 5) -> str:
    return ", ".join(map(str, rows[:at_most])) + (f", … ({len(rows)} in all)" if len(rows) > at_most else "")


def _as_json(found: Explanation | str) -> dict[str, Any]:
    return {"reason": found} if isinstance(found, str) else found.to_dict()
