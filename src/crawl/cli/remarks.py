"""What `crawl train` says about its data and its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crawl.cli.output import print_table, printable, say
from crawl.runs.experiment import Experiment

if TYPE_CHECKING:
    from crawl.data import Dataset, Task
    from crawl.data.features import Column
    from crawl.runs import Result
    from crawl.runs.sources import Data
    from crawl.walks.plan import WalkPlan

_MOST_TARGETS = 12  # whose scores are printed
_UNEQUAL = 10  # times as large as another deviation of targets, so that a mean error is of the largest alone
_SPLIT_NAMES = ("split", "set", "subset", "part", "partition", "fold")  # of columns that may be one


def report(results: Sequence[Result], folder: Path, *remarks: str, together: Result | None = None) -> None:
    """Print the scores of runs, with both spreads where a model was trained several times, and of each target.

    Scores of targets are those of the first model, or of what all say together, if that is given.
    """
    from crawl.runs.formats import format_score
    from crawl.runs.protocol import Summary, results_table

    print_table(results_table(results))
    metric = results[0].record["metric"]
    titles = [Experiment.from_plain(result.record["config"]).model.title for result in results]
    for model in dict.fromkeys(titles):
        own = [result for title, result in zip(titles, results, strict=True) if title == model]
        if len(own) > 1:
            mean, internal, cross = (format_score(metric, value) for value in vars(Summary.of(own)).values())
            print(f"{model}: {mean} over {len(own)} models ± {cross} between models, ± {internal} between evaluations")
    for remark in remarks:
        print(remark)
    first = [result for title, result in zip(titles, results, strict=True) if title == titles[0]]
    for line in described_scores(first if together is None else [together]):
        print(line)
    page = folder / "report.html"
    print(f"Everything about it is in {folder}" + (f"; to look at: {page}" if page.is_file() else ""))


def described_scores(results: Sequence[Result]) -> list[str]:
    """A line for each target with its test score, averaged over runs; none if there is one target."""
    from crawl.runs.formats import format_score

    of_runs = [result.record["scores"]["test"].get("by_target", {}) for result in results]
    metric, names = results[0].record["metric"], list(of_runs[0])
    if len(names) < 2:
        return []
    over = f", mean over {len(results)} models" if len(results) > 1 else ""
    lines = [f"Test {metric} of each target{over}:"]
    for name in names[:_MOST_TARGETS]:
        values = [by_target[name]["mean"] for by_target in of_runs]
        mean = None if None in values else sum(values) / len(values)
        is_in_unit = metric in ("mae", "rmse") and mean is not None  # of the target, however small that is
        lines.append(f"  {printable(name)}: {f'{mean:.5g}' if is_in_unit else format_score(metric, mean)}")
    if len(names) > _MOST_TARGETS:
        lines.append(f"  … and {len(names) - _MOST_TARGETS} more, in result.json")
    return lines


def say_data(dataset: Dataset, data: Data | None = None, path: str | None = None, walk: WalkPlan | None = None) -> None:
    """Say what is predicted, from what, and how it is split; `data` are the settings it was read by, `path` where it
    is, and `walk` what walks it gets."""
    is_found = getattr(data, "task", None) == "auto"
    say(described_task(dataset.task, is_found=is_found))
    for line in (described_features(dataset), described_split(dataset, data)):
        if line:
            say(line)
    for line in (
        targets_with_gaps(dataset),
        unequal_targets(dataset),
        unused_split(data, path),
        shared_molecules(dataset, data),
        inexact_walks(dataset, walk),
    ):
        if line:
            say(line)


def described_task(task: Task, *, is_found: bool = False) -> str:
    """What is predicted, in one line, so that a column that was read in another way than it was meant is seen.

    With `is_found`, the kind was found from the values, and numbers that became classes are told of.
    """
    from crawl.data.features import listed

    targets = listed(task.target_names) or "the target"
    verb = "are" if len(task.target_names) > 1 else "is"
    classes = listed(task.class_names, at_most=10) or f"{max(task.num_outputs, 2)} classes"
    values = {"regression": "numbers" if verb == "are" else "a number", "multilabel": "yes or no"}
    what = values.get(task.kind, f"one of {classes}")
    are_numbers = all(name.lstrip("-").isdigit() for name in task.class_names) and task.class_names
    if is_found and are_numbers and set(task.class_names) != {"0", "1"}:
        what += " (if these are quantities, not classes: --data.task regression)"
    return f"Task: {task.kind} per {task.level}, scored by {task.metric}; {targets} {verb} {what}."


def described_split(dataset: Dataset, data: Data | None) -> str:
    """How data of one's own are split, in one line; empty for others."""
    from crawl.checks import shown
    from crawl.choices import BY_FILE
    from crawl.data.link_graph import LinkGraph
    from crawl.runs.sources import WAYS_TO_SPLIT

    split = getattr(data, "split", None)
    if split is None:
        return ""
    ways = {BY_FILE: "by file", "auto": "", "random": "drawn at random", "stratified": "drawn at random by class"}
    ways["scaffold"] = "drawn by scaffold"
    way = ways.get(split, f"given by {shown(split)}")
    if (number := getattr(data, "num_folds", 0)) and split in WAYS_TO_SPLIT:
        way += f", one of {number} folds"
    titles, more = {"train": "for training", "val": "for validation", "test": "for the test"}, ""
    counts, store = {part: len(getattr(dataset.split, part)) for part in titles}, dataset.store
    if isinstance(store, LinkGraph):  # whose targets are pairs with a link and without, in training those of an epoch
        counts = {part: count // (1 + store.num_negatives) for part, count in counts.items()}
        titles["train"] = f"links for training, of which an epoch hides and predicts {counts['train']:,}"
        counts["train"] = store.num_edges // 2
        more = f". Pairs without a link for each that is predicted: {store.num_negatives:,}"
    sizes = ", ".join(f"{counts[part]:,} {title}" for part, title in titles.items())
    return f"Split: {way + ': ' if way else ''}{sizes}{more}."


def targets_with_gaps(dataset: Dataset) -> str:
    """How many rows lack some of several numbers; empty if none does."""
    y, task = dataset.store.y, dataset.task
    if y is None or task.kind != "regression" or task.num_outputs < 2 or task.level != "graph":
        return ""
    number = int(y.isnan().any(dim=1).sum())
    if not number:
        return ""
    lack = "lacks" if number == 1 else "lack"
    how = "each target is learned and scored by the rows that have it"
    return f"{number:,} of {len(y):,} rows {lack} some targets: {how}."


def unequal_targets(dataset: Dataset) -> str:
    """That the targets of a regression are of such different sizes that one of them decides a mean error."""
    import torch

    from crawl.training.evaluation import Scaling, targets_of

    task = dataset.task
    if task.kind != "regression" or task.num_outputs < 2 or task.metric not in ("mae", "rmse") or not task.target_names:
        return ""
    targets = torch.from_numpy(targets_of(dataset.store, dataset.split.train))
    deviations = dict(zip(task.target_names, Scaling.of(targets.double()).deviation, strict=True))
    small, large = (choose(deviations, key=lambda name: deviations[name]) for choose in (min, max))
    if deviations[large] <= _UNEQUAL * deviations[small]:
        return ""
    return (
        f"Targets are of different sizes (standard deviation {deviations[large]:.3g} of {large!r}, "
        f"{deviations[small]:.3g} of {small!r}), so that the mean {task.metric}, which chooses the epoch, is mostly "
        f"that of {large!r}: --data.metric r2 lets all targets count alike."
    )


def unused_split(data: Data | None, path: str | None) -> str:
    """That a table has a column with train, val and test which is not used; empty if it has not, or is in parts."""
    from crawl.data.splits import part_named
    from crawl.data.table import Table
    from crawl.runs.sources import WAYS_TO_SPLIT, Csv, Folder

    if not isinstance(data, Csv | Folder) or data.split not in WAYS_TO_SPLIT or data.num_folds or path is None:
        return ""
    table = Table(Path(path, "labels.csv") if isinstance(data, Folder) else path)
    used = (*data.targets, *(data.smiles + data.columns if isinstance(data, Csv) else ()))
    names = [name for name in table.columns if name.lower() in _SPLIT_NAMES and name not in used]
    seen: dict[str, set[str]] = {name: set() for name in names}
    for row in table if names else ():
        for name in list(seen):
            if part_named(row.cells[name]) is None:
                del seen[name]
            else:
                seen[name].add(row.cells[name])
    for name, words in seen.items():
        if {part_named(word) for word in words} >= {"train", "test"}:
            listed = sorted(words, key=lambda word: ("train", "val", "test").index(part_named(word) or "test"))
            return f"There is a column {name!r} with {', '.join(listed)}: --data.split {name} uses it."
    return ""


def shared_molecules(dataset: Dataset, data: Data | None) -> str:
    """That molecules are in several rows, and these in different parts of the split; empty if they are not.

    Three files are compared where they are read, and packed stores not at all, since all names are read.
    """
    from crawl.choices import BY_FILE
    from crawl.runs.sources import Csv

    if not isinstance(data, Csv) or data.split == BY_FILE or dataset.graph_names is None:
        return ""
    from crawl.data.smiles import canonical_smiles

    parts: dict[str, set[str]] = {}
    rows: Counter[str] = Counter()
    for part in ("train", "val", "test"):
        for i in getattr(dataset.split, part).tolist():
            molecule = canonical_smiles(dataset.graph_names[i])
            parts.setdefault(molecule, set()).add(part)
            rows[molecule] += 1
    shared = [molecule for molecule, of_molecule in parts.items() if len(of_molecule) > 1]
    if not shared:
        return ""
    number = sum(rows[molecule] for molecule in shared)
    are = "molecule is" if len(shared) == 1 else "molecules are"
    remedy = "" if data.split == "scaffold" else ": --data.split scaffold keeps a molecule in one part"
    return (
        f"{len(shared):,} {are} in more than one part of the split ({number:,} rows), so scores may be better than on "
        f"new molecules{remedy}."
    )


def inexact_walks(dataset: Dataset, walk: WalkPlan | None) -> str:
    """That centred walks need not be exactly what they are to be; empty where they are."""
    from crawl.data import OneGraph
    from crawl.walks.centred import why_inexact

    if walk is None or not walk.centred:
        return ""
    reason = why_inexact(walk.strategy, dataset.store.graph if isinstance(dataset.store, OneGraph) else None)
    return reason and f"{reason}: --walk.strategy uniform is exact."


def described_features(dataset: Dataset) -> str:
    """Which columns of a table a model sees, in one line; empty for data that do not come from tables."""
    columns, has_molecules = dataset.columns, dataset.graph_names is not None and _are_molecules(dataset)
    if columns is None:
        return "Features: the molecule alone; no other column is used." if has_molecules else ""
    parts = ["the molecule"] if has_molecules else []
    for owner, of_owner in (("nodes", columns.nodes), ("edges", columns.edges), ("graphs", columns.graphs)):
        if of_owner:
            of = "" if has_molecules else f" of {owner}"
            parts.append(f"column{'s'[: len(of_owner) - 1]}{of} {_listed(of_owner)}")
    if columns.descriptors:
        parts.append(f"{len(columns.descriptors)} descriptors")
    return f"Features: {'; '.join(parts)}. No other column is used." if parts else "Features: none, edges alone."


def _are_molecules(dataset: Dataset) -> bool:
    from crawl.data.features import ATOM_CATEGORIES

    return dataset.node_categories[: len(ATOM_CATEGORIES)] == ATOM_CATEGORIES


def _listed(columns: Sequence[Column], at_most: int = 10) -> str:
    """Columns with what they hold, the first of them if there are many."""
    shown = [f"{each.name} ({'numbers' if each.values is None else f'{len(each.values)} values'})" for each in columns]
    return ", ".join(shown[:at_most]) + (f", … ({len(shown)} in all)" if len(shown) > at_most else "")


def report_skipped(dataset: Dataset, at_most: int = 5) -> None:
    """Say which rows of the data are skipped."""
    for line in dataset.skipped[:at_most]:
        say(f"skipped {line}")
    if len(dataset.skipped) > at_most:
        say(f"… and {len(dataset.skipped) - at_most} more: {len(dataset.skipped)} rows are skipped")
