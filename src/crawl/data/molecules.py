"""Molecules in CSV files, as SMILES."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crawl.checks import as_list, check_choice, shown, truth
from crawl.choices import BY_FILE
from crawl.data.dataset import Dataset
from crawl.data.features import ATOM_CATEGORIES, BOND_CATEGORIES, Column, Columns, Unknown
from crawl.data.graph_columns import (
    check_graph_columns,
    choose_descriptors,
    encode_graph_columns,
    fit_columns,
    kinds_of_columns,
    problem_of,
)
from crawl.data.labelled import BadRows, choose_targets, label, split_labelled
from crawl.data.part_files import PartPaths, PartTables
from crawl.data.splits import DRAWN_FRACTIONS, Folds, Fractions, Split
from crawl.data.store import GraphStore
from crawl.data.table import Row, Table
from crawl.data.targets import AnyKind


def from_csv(
    path: str | Path,
    smiles_column: str | Sequence[str] | None = None,
    target_columns: str | Sequence[str] = (),
    *,
    val_path: str | Path | None = None,
    test_path: str | Path | None = None,
    split: str | Path | Split | Folds | None = None,
    fractions: Fractions | None = None,
    seed: int = 0,
    bad_rows: BadRows = "skip",
    task: AnyKind = "auto",
    metric: str | None = None,
    weight_column: str | None = None,
    feature_columns: str | Sequence[str] = (),
    descriptors: bool = False,
    level: Literal["molecule", "atom", "bond"] = "molecule",
) -> Dataset:
    """The molecules of a CSV file with their targets; needs rdkit.

    Args:
        path: The file, plain or compressed with gzip; `Table` says what is understood. Or a folder with `train.csv`,
            `valid.csv` (or `val.csv`) and `test.csv`, which are split as they are.
        smiles_column: The column with the molecules; the one called SMILES, in capitals or not, when None. Or several
            columns, such as a solute and a solvent: their molecules are side by side in one graph, and a last category
            of each atom says which column it is of.
        target_columns: The columns to predict; may be left out if there is only one besides.
        val_path: The file for validation, if `path` is for training only; it needs the same columns, and `test_path`.
            A molecule that is in two files is warned of.
        test_path: The file for the test.
        split: `random`, `stratified` (by class), `scaffold` (by Bemis–Murcko scaffold, of the first molecule in a row),
            the name of a column that says `train`, `val` or `test`, a JSON file of row numbers from 0, as `read_split`
            reads it, or `Folds`. When None, by file (`files`) where there are three, and else `random`.
        fractions: The shares of training, validation and test, if they are drawn, which `seed` fixes; 0.8, 0.1 and 0.1
            when None.
        bad_rows: Whether to `skip` rows that cannot be used, listing them in `Dataset.skipped`, or to `refuse` the
            file. Bad are molecules that cannot be read, cells that are not targets, and rows without a target. Of
            several labels or numbers, some may be missing, and are NaN.
        task: The kind of the task; found from the targets with `auto`, as `targets_from_text` says.
        metric: The score; the usual one of the task when None.
        weight_column: The column that says how much each row counts in training, a number of 0 or more; all count alike
            when None. A row without one is bad. Scores are not weighted.
        feature_columns: Columns that a model sees besides the molecule, such as a temperature: numbers, or words, which
            become one-hot. They are `store.u`. A row without one is bad.
        descriptors: Whether a model also sees RDKit's 2D descriptors, about 200 numbers, which follow in `store.u`.
            Those are left out that are missing for more than a tenth of the training molecules, or the same for all
            others; a missing one is NaN, which a network takes for the mean.
        level: Whether targets are of a `molecule`, or of each `atom`: then a cell is a JSON list with a value for each
            atom, in the order in which the SMILES names them, null where one is missing. Hydrogens written as atoms of
            their own, `[H]`, do not count. A list of another length makes a row bad. With `bond`, a value is of each
            bond, in rdkit's order (`molecule.GetBonds()`); models see the molecule alone, without other features.

    Raises:
        ValueError: For anything wrong with the file or the choices; the message says what to do.
        ImportError: If rdkit is not installed.
    """
    paths = PartPaths.of(path, val_path, test_path)
    table = Table(path) if paths is None else PartTables(paths)
    split = _checked_split(paths, split, fractions)
    smiles_columns = smiles_columns_of(table, smiles_column)
    taken: list[tuple[str, object]] = [("a SMILES column", column) for column in smiles_columns]
    taken += [("the column of the split", split), ("the column of weights", weight_column)]
    names = check_graph_columns(table, feature_columns, taken)
    targets = choose_targets(table, target_columns, taken=(*(column for _, column in taken), *names))
    rows = list(table)
    kinds = kinds_of_columns(rows, names)
    examples = ((row, row.problem or problem_of(row.cells, kinds) or _graph(row.cells, smiles_columns)) for row in rows)
    check_choice("level", level, ("molecule", "atom", "bond"))
    if level != "molecule" and len(smiles_columns) > 1:
        raise ValueError(f"Targets of {level}s need one SMILES column, not several.")
    if level == "bond" and (names or truth("descriptors", descriptors)):
        raise ValueError("Targets of bonds are predicted from the molecule alone: leave out columns and descriptors.")
    values_of = None if level == "molecule" else (level, _num_atoms if level == "atom" else _num_bonds)
    how: Any = {"bad_rows": bad_rows, "task": task, "metric": metric, "weight_column": weight_column}
    labelled = label(table, examples, targets, **how, values_of=values_of)
    smiles = [tuple(row.cells[column] for column in smiles_columns) for row in labelled.rows]
    if isinstance(table, PartTables):
        parts = table.split(labelled.rows)
        table.warn_of_leaks(labelled.rows, [tuple(map(_canonical, each)) for each in smiles])
    else:
        first = [each[0] for each in smiles]
        parts = split_labelled(labelled, split, fractions or DRAWN_FRACTIONS, seed, first)
    u, columns = _graph_features([row.cells for row in labelled.rows], kinds, smiles, descriptors, parts.train)
    store, weights = GraphStore.from_graphs(labelled.graphs), labelled.sample_weight
    owners: dict[str, Any] = {"y_per_node": level == "atom"}
    if level == "bond":
        owners = bonds_of(store)
    number_of = {"molecule": torch.ones(len(store), dtype=torch.long), "atom": store.sizes[0]}
    if weights is not None:
        weights = weights.repeat_interleave(number_of.get(level, store.sizes[1] // 2))
    return Dataset(
        name=table.name,
        store=replace(store, y=labelled.y, sample_weight=weights, u=u, **owners),
        task=labelled.task,
        split=parts,
        node_categories=(*ATOM_CATEGORIES, *((len(smiles_columns),) if len(smiles_columns) > 1 else ())),
        edge_categories=BOND_CATEGORIES,
        skipped=labelled.skipped,
        graph_names=tuple(".".join(each) for each in smiles),
        columns=columns,
    )


def read_molecules(
    path: str | Path,
    smiles_column: str | Sequence[str] | None = None,
    columns: Columns | None = None,
    unknown: Unknown | None = None,
) -> Iterator[tuple[int, dict[str, str], Data | str]]:
    """For each row of a CSV file, its line, its cells, and the molecule or the reason why there is none; needs rdkit.

    Rows are read as they are asked for, so the file may be of any length; the arguments are those of `from_csv`. If the
    `columns` of a data set are given, molecules have the features `u` of that data set; words that did not occur there
    are counted in `unknown`.

    Raises:
        ValueError: If the file cannot be read or has no such column, at once and not with the first row.
        ImportError: If rdkit is not installed.
    """
    read, counted = row_reader(path, smiles_column, columns), Unknown() if unknown is None else unknown
    return ((row.line, row.cells, row.problem or read(row, counted)) for row in Table(path))


def row_reader(
    path: str | Path, smiles_column: str | Sequence[str] | None = None, columns: Columns | None = None
) -> Callable[[Row, Unknown], Data | str]:
    """What makes of a row of a table its molecule, or the reason why there is none; the arguments are those of
    `read_molecules`, and so are the errors."""
    import crawl.data.smiles  # noqa: F401  (so that a missing rdkit is reported at once)

    table = Table(path)
    smiles_columns, known = smiles_columns_of(table, smiles_column), columns or Columns()
    for feature in known.graphs:
        table.check_column(feature.name)
    return lambda row, unknown: _with_features(row, smiles_columns, known, unknown)


def _with_features(row: Row, smiles_columns: Sequence[str], columns: Columns, unknown: Unknown) -> Data | str:
    """The molecule in a row with its features, or the reason why there is none."""
    smiles = [row.cells[column] for column in smiles_columns]
    graph = problem_of(row.cells, columns.graphs) or _graph(row.cells, smiles_columns)
    if isinstance(graph, Data) and (columns.graphs or columns.descriptors):
        parts = [encode_graph_columns([row.cells], columns.graphs, unknown)]
        graph.u = torch.from_numpy(np.concatenate([*parts, *_descriptors([smiles], columns.descriptors)], axis=1))
    return graph


def _graph_features(
    cells: Sequence[dict[str, str]],
    kinds: Sequence[Column],
    smiles: Sequence[Sequence[str]],
    has_descriptors: bool,
    train: Tensor,
) -> tuple[Tensor | None, Columns | None]:
    """`[rows, K]` the features of the molecules in usable rows, and what they are; None if none are asked for."""
    if not kinds and not truth("descriptors", has_descriptors):
        return None, None
    columns = Columns(graphs=fit_columns([cells[i] for i in train.tolist()], kinds))
    parts = [encode_graph_columns(cells, columns.graphs, Unknown())]
    if has_descriptors:
        from crawl.data.descriptors import descriptors_of, names_of_descriptors

        names = names_of_descriptors(len(smiles[0]))
        values = descriptors_of(smiles, names)
        kept = choose_descriptors(names, values[train.numpy()])
        if not kept:
            raise ValueError("No descriptor differs between the training molecules: leave out descriptors.")
        columns = replace(columns, descriptors=tuple(names[i] for i in kept))
        parts.append(values[:, kept])
    return torch.from_numpy(np.concatenate(parts, axis=1)), columns


def _descriptors(smiles: Sequence[Sequence[str]], names: Sequence[str]) -> list[NDArray[np.float64]]:
    """The descriptors of molecules, if any are named."""
    if not names:
        return []
    from crawl.data.descriptors import descriptors_of

    return [descriptors_of(smiles, names)]


def _graph(cells: Mapping[str, str], columns: Sequence[str]) -> Data | str:
    """The molecules in these columns of a row as one graph, or the reason why there is none."""
    from crawl.data.smiles import molecule_graph, side_by_side

    graphs = []
    for column in columns:
        try:
            graphs.append(molecule_graph(cells[column]))
        except ValueError as error:
            return str(error) if len(columns) == 1 else f"{column}: {error}"
    return side_by_side(graphs)


def bonds_of(molecules: GraphStore) -> dict[str, Any]:
    """The `pairs` and `pair_ptr` of molecules whose bonds have targets: each bond is two edges, one after the other."""
    return {"pairs": molecules.edge_index[:, ::2].t().contiguous(), "pair_ptr": molecules.edge_ptr // 2}


def _num_atoms(graph: Data) -> int:
    return int(graph.num_nodes or 0)


def _num_bonds(graph: Data) -> int:
    return int(graph.num_edges) // 2


def _canonical(smiles: str) -> str:
    """The one SMILES of a molecule, however it is written."""
    from crawl.data.smiles import canonical_smiles

    return canonical_smiles(smiles)


def _checked_split(
    paths: PartPaths | None, split: str | Path | Split | Folds | None, fractions: Fractions | None
) -> str | Path | Split | Folds:
    """The way to split. Refuses another one where there are three files, and one by file where there are not."""
    is_by_file = isinstance(split, str) and split == BY_FILE
    if paths is None:
        if is_by_file:
            raise ValueError(
                f"split={BY_FILE!r} needs three files: give val_path and test_path, too, or a folder with train.csv, "
                "valid.csv and test.csv."
            )
        return "random" if split is None else split
    for name, value in (("split", None if is_by_file else split), ("fractions", fractions)):
        if value is not None:
            raise ValueError(f"{name}={shown(value)} cannot change the split, which three files give: leave it out.")
    return BY_FILE


def smiles_columns_of(table: Table, names: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns with SMILES: those named, or else the one that is called so."""
    if names is None:
        found = [column for column in table.columns if column.lower() == "smiles"]
        if len(found) != 1:
            number = "no column" if not found else "more than one column"
            raise ValueError(
                f"{table.title} has {number} called SMILES; say which it is of: {', '.join(table.columns)}."
            )
        names = found
    columns = (names,) if isinstance(names, str) else tuple(as_list("smiles_column", names, "names of columns"))
    for column in columns:
        table.check_column(column)
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(f"Name each SMILES column once, not {shown(columns)}.")
    return columns
