"""Which graphs are for training, which for validation and which for the test."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from crawl.checks import MAX_COUNT, MAX_SEED, as_list, as_path, check_choice, real_number, shown, whole_number
from crawl.files import parse_json
from crawl.tensor_checks import as_ids, in_memory

Fractions = tuple[float, float, float]
DRAWN_FRACTIONS: Fractions = (0.8, 0.1, 0.1)  # of parts that are drawn, unless others are given

_PART_OF = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}


@dataclass(frozen=True, eq=False)
class Split:
    """Three lists of graph ids, int64, without a graph in common: to learn from, to choose the best epoch with, and for
    the final score.
    """

    train: Tensor
    val: Tensor
    test: Tensor

    def __post_init__(self) -> None:
        for part in fields(self):
            ids = as_ids(f"The {part.name} part of a split", getattr(self, part.name))
            if bool((ids < 0).any()):
                raise ValueError(f"The {part.name} part of a split holds {int(ids.min())}; ids are counted from 0.")
            object.__setattr__(self, part.name, ids)
        ids = self.ids
        repeated = ids[1:][ids[1:] == ids[:-1]]
        if repeated.numel():
            raise ValueError(f"Id {int(repeated[0])} occurs more than once in the split: name it once, in one part.")

    @property
    def ids(self) -> Tensor:
        """All ids of the split, ascending."""
        return torch.cat([self.train, self.val, self.test]).sort().values

    def to_json(self) -> str:
        """The split as text, for `from_json`."""
        return json.dumps({part.name: getattr(self, part.name).tolist() for part in fields(self)})

    @classmethod
    def from_json(cls, text: str) -> Split:
        """The split that `to_json` wrote. Refuses other text."""
        try:
            parts = parse_json(text)
            tensors = {part: torch.tensor(parts[part]) for part in ("train", "val", "test")}
        except (KeyError, TypeError, ValueError, RuntimeError, OverflowError):
            raise ValueError(
                'A split must be JSON of the form {"train": [ids], "val": [ids], "test": [ids]}.'
            ) from None
        return cls(**tensors)

    def __repr__(self) -> str:
        return f"Split(train={len(self.train)}, val={len(self.val)}, test={len(self.test)})"


def random_split(num_graphs: int, fractions: Fractions = (0.8, 0.1, 0.1), seed: int = 0) -> Split:
    """Parts drawn without regard to anything; `fractions` are the shares of training, validation and test.

    They must sum to 1. Refuses to leave a part empty; so do the other splits.
    """
    num_graphs = whole_number("num_graphs", num_graphs, 0, MAX_COUNT)
    num_train, num_val = _part_sizes(num_graphs, fractions)
    with in_memory(f"A split of {num_graphs} graphs"):
        order = np.random.default_rng(whole_number("seed", seed, 0, MAX_SEED)).permutation(num_graphs)
    return _sorted_split(*np.split(order, [num_train, num_train + num_val]))


def stratified_split(
    labels: Sequence[Hashable] | Tensor, fractions: Fractions = (0.8, 0.1, 0.1), seed: int = 0
) -> Split:
    """Parts in which every class has about the same share; `labels`, `[G]`, is the class of each graph.

    Refuses classes of too few graphs.
    """
    from sklearn.model_selection import train_test_split

    classes = _as_classes(labels)
    num_train, num_val = _part_sizes(len(classes), fractions)
    seed = whole_number("seed", seed, 0, 2**32 - 1)  # scikit-learn's limit
    everything = np.arange(len(classes))
    try:
        train, rest = train_test_split(everything, train_size=num_train, stratify=classes, random_state=seed)
        val, test = train_test_split(rest, train_size=num_val, stratify=classes[rest], random_state=seed)
    except ValueError:  # scikit-learn's words for it do not say what to do
        raise ValueError(
            f"The smallest class has {np.bincount(classes).min()} graphs, too few for a stratified split by "
            f"{fractions}; use a random split or other fractions."
        ) from None
    return _sorted_split(train, val, test)


def stratified_folds(labels: Sequence[Hashable] | Tensor, num_folds: int = 10, seed: int = 0) -> list[Split]:
    """Splits for cross-validation, in which every class has about the same share.

    Fold i is the test part of split i, and the validation part of the split before. `labels`, `[G]`, is the class of
    each graph. Refuses fewer than 3 folds, and classes of too few graphs.
    """
    from sklearn.model_selection import StratifiedKFold

    classes = _as_classes(labels)
    seed = whole_number("seed", seed, 0, 2**32 - 1)  # scikit-learn's limit
    num_folds = whole_number("num_folds", num_folds, 0, MAX_COUNT)
    smallest = int(np.bincount(classes).min()) if len(classes) else 0
    if not 3 <= num_folds <= smallest:
        raise ValueError(f"num_folds must be from 3 to {smallest}, the size of the smallest class, not {num_folds}.")
    fold_of_graph = np.empty(len(classes), dtype=np.int64)
    folds = StratifiedKFold(num_folds, shuffle=True, random_state=seed).split(classes, classes)
    for fold, (_, test) in enumerate(folds):
        fold_of_graph[test] = fold
    return _splits_of(fold_of_graph, num_folds)


def random_folds(
    num_graphs: int, num_folds: int = 5, seed: int = 0, labels: Sequence[Hashable] | Tensor | None = None
) -> list[Split]:
    """Splits for cross-validation, whose folds are drawn; `stratified_folds` says which part each fold is.

    If `labels`, `[G]`, say the class of each graph, the graphs of each class are dealt out to the folds in turn,
    however few there are. Refuses fewer than 3 folds, and more than there are graphs.
    """
    num_graphs = whole_number("num_graphs", num_graphs, 0, MAX_COUNT)
    classes = np.zeros(num_graphs, dtype=np.int64) if labels is None else _as_classes(labels)
    if len(classes) != num_graphs:
        raise ValueError(f"labels must be {num_graphs} classes, one for each graph, not {len(classes)}.")
    _check_num_folds(num_folds, num_graphs, "graphs")
    order = np.random.default_rng(whole_number("seed", seed, 0, MAX_SEED)).permutation(num_graphs)
    fold_of_graph = np.empty(num_graphs, dtype=np.int64)
    fold_of_graph[order[np.argsort(classes[order], kind="stable")]] = np.arange(num_graphs) % num_folds
    return _splits_of(fold_of_graph, num_folds)


def group_folds(groups: Sequence[Hashable], num_folds: int = 5, seed: int = 0) -> list[Split]:
    """Splits for cross-validation such that graphs of one group stay together; `stratified_folds` says which part each
    fold is.

    `groups`, `[G]`, is the group of each graph. Groups are dealt out from the largest on, each to the fold with the
    fewest graphs; the seed fixes the order of groups of equal size. Refuses fewer than 3 folds, and more than there are
    groups.
    """
    numbers = _as_classes(groups)
    sizes = np.bincount(numbers)
    _check_num_folds(num_folds, len(sizes), "groups")
    shuffled = np.random.default_rng(whole_number("seed", seed, 0, MAX_SEED)).permutation(len(sizes))
    fold_of_group, filled = np.empty_like(sizes), np.zeros(num_folds, dtype=np.int64)
    for group in sorted(shuffled, key=lambda group: -sizes[group]):
        fold_of_group[group] = filled.argmin()
        filled[fold_of_group[group]] += sizes[group]
    return _splits_of(fold_of_group[numbers], num_folds)


@dataclass(frozen=True)
class Folds:
    """One split of a cross-validation: the fold `fold` is its test part, the next one its validation part.

    Attributes:
        num_folds: The number of folds, at least 3.
        fold: Which of them, from 0.
        by: `random`, by `random_folds`, where classes have about the same share in each fold; `stratified`, which
            refuses classes of fewer graphs than folds; `scaffold`, by the Bemis–Murcko scaffolds of molecules.
    """

    num_folds: int = 5
    fold: int = 0
    by: str = "random"

    def __post_init__(self) -> None:
        whole_number("num_folds", self.num_folds, 3, MAX_COUNT)
        whole_number("fold", self.fold, 0, self.num_folds - 1)
        check_choice("by", self.by, ("random", "stratified", "scaffold"))

    def split(
        self, num_graphs: int, labels: Tensor | None = None, seed: int = 0, smiles: Sequence[str] | None = None
    ) -> Split:
        """The split of graphs with these classes, if they have any, and SMILES, if they are molecules."""
        if self.by == "scaffold":
            return group_folds(scaffolds_of(smiles), self.num_folds, seed)[self.fold]
        if self.by == "stratified":
            return stratified_folds(_labels_for_strata(labels), self.num_folds, seed)[self.fold]
        return random_folds(num_graphs, self.num_folds, seed, labels)[self.fold]


def group_split(groups: Sequence[Hashable], fractions: Fractions = (0.8, 0.1, 0.1), seed: int = 0) -> Split:
    """Parts such that graphs of one group stay together: the largest groups come into training.

    `groups`, `[G]`, is the group of each graph. The fractions are met as well as groups allow; the seed fixes the order
    of groups of equal size.
    """
    numbers = _as_classes(groups)
    num_train, num_val = _part_sizes(len(numbers), fractions)
    sizes = np.bincount(numbers)
    shuffled = np.random.default_rng(whole_number("seed", seed, 0, MAX_SEED)).permutation(len(sizes))
    space = [num_train, num_val, len(numbers)]
    part_of_group = np.empty_like(sizes)
    for group in sorted(shuffled, key=lambda group: -sizes[group]):
        part = next(part for part in range(3) if sizes[group] <= space[part])
        space[part] -= sizes[group]
        part_of_group[group] = part
    if len(np.unique(part_of_group)) < 3:
        raise ValueError(
            f"The {len(sizes)} groups (the largest has {sizes.max()} of {len(numbers)} graphs) do not fill three "
            "parts; use other fractions or a random split."
        )
    return Split(*(torch.from_numpy(np.flatnonzero(part_of_group[numbers] == part)) for part in range(3)))


def scaffold_split(smiles: Sequence[str], fractions: Fractions = (0.8, 0.1, 0.1), seed: int = 0) -> Split:
    """The `group_split` of molecules, `[G]` SMILES, by their Bemis–Murcko scaffold; needs rdkit.

    Molecules without rings have no scaffold and form one group.
    """
    return group_split(scaffolds_of(smiles), fractions, seed)


def scaffolds_of(smiles: Sequence[str] | None) -> list[str]:
    """`[G]` the Bemis–Murcko scaffolds of molecules; needs rdkit. Refuses None, which other graphs have."""
    from crawl.data.smiles import read_smiles, scaffold

    if smiles is None:
        raise ValueError("A scaffold split needs molecules; use a random split.")
    return [scaffold(read_smiles(text)) for text in _as_words("smiles", smiles)]


def split_from_column(values: Sequence[str], places: Sequence[str] | None = None) -> Split:
    """The parts that a column of a table names: `train`, `val` or `test` for each graph, or their usual synonyms.

    Refuses any other word. `places`, `[G]`, says where each value stands, for the message; its row when None.
    """
    values = _as_words("values", values)
    places = None if places is None else as_list("places", places, "words")
    if places is not None and len(places) != len(values):
        raise ValueError(f"places must be a list of {len(values)} words, one for each value, not {shown(places)}.")
    parts = [part_named(value) for value in values]
    if None in parts:
        i = parts.index(None)
        place = f"row {i + 1}" if places is None else places[i]
        raise ValueError(f"The split column says {shown(values[i])} in {place}; it may say train, val or test.")
    ids = {name: [i for i, part in enumerate(parts) if part == name] for name in ("train", "val", "test")}
    if empty := [part for part, members in ids.items() if not members]:
        raise ValueError(f"The split column puts no row into {' and '.join(empty)}: give each part one.")
    return Split(**{part: torch.tensor(members) for part, members in ids.items()})


def part_named(word: str) -> str | None:
    """The part that a word such as `valid` or `Train` means: `train`, `val` or `test`; None for other words."""
    return _PART_OF.get(word.strip().lower())


def read_split(path: str | Path) -> Split:
    """The split in a JSON file of the form `{"train": [ids], "val": [ids], "test": [ids]}`. Refuses other files."""
    path = as_path("path", path)
    try:
        return Split.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def choose_split(
    split: str | Path | Split | Folds,
    num_graphs: int,
    labels: Tensor | None = None,
    fractions: Fractions = (0.8, 0.1, 0.1),
    seed: int = 0,
) -> Split:
    """The split that a user asks for: `random`, `stratified`, a file for `read_split`, `Folds`, or the split itself.

    `labels`, `[G]`, is the class of each graph, if they have any; `fractions` and `seed` are for parts that are drawn.
    """
    if isinstance(split, Split):
        return split
    if isinstance(split, Folds):
        return split.split(num_graphs, labels, seed)
    path = as_path("split", split)
    num_graphs = whole_number("num_graphs", num_graphs, 0, MAX_COUNT)
    if split == "random":
        return random_split(num_graphs, fractions, seed)
    if split == "stratified":
        return stratified_split(_labels_for_strata(labels), fractions, seed)
    if path.is_file():
        return read_split(path)
    raise ValueError(f"split is {shown(str(split))}, which is neither 'random', 'stratified' nor a file.")


def _part_sizes(num_graphs: int, fractions: Fractions) -> tuple[int, int]:
    """The numbers of training and of validation graphs; the others are for the test."""
    shares = as_list("fractions", fractions, "three shares")
    shares = [real_number("fractions", each, wanted="three positive numbers that sum to 1") for each in shares]
    if len(shares) != 3 or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"fractions must be three positive numbers that sum to 1, not {shown(fractions)}.")
    num_val, num_test = (max(1, round(num_graphs * part)) for part in shares[1:])
    num_train = num_graphs - num_val - num_test
    if num_train < 1:
        raise ValueError(f"{num_graphs} graphs are too few to be split by {fractions}.")
    return num_train, num_val


def _as_classes(labels: Sequence[Hashable] | Tensor) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    values = as_list("labels", labels, "classes, one for each graph")
    try:
        number = {value: i for i, value in enumerate(dict.fromkeys(values))}
    except (TypeError, RuntimeError, RecursionError):  # a list, say, which cannot be a key
        raise ValueError(f"Each graph must have one class, a word or a number, not as in {shown(labels)}.") from None
    return np.array([number[value] for value in values], dtype=np.int64)


def _as_words(name: str, values: Sequence[str]) -> list[str]:
    words = as_list(name, values, "words")
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise ValueError(f"{name}[{i}] must be a word, not {shown(word)}.")
    return words


def _labels_for_strata(labels: Tensor | None) -> Tensor:
    if labels is None:
        raise ValueError("A stratified split needs one class for each graph; use a random split.")
    return labels


def _check_num_folds(num_folds: int, most: int, what: str) -> None:
    num_folds = whole_number("num_folds", num_folds, 0, MAX_COUNT)
    if not 3 <= num_folds <= most:
        raise ValueError(f"num_folds must be from 3 to {most}, the number of {what}, not {num_folds}.")


def _splits_of(fold_of_graph: np.ndarray[tuple[int], np.dtype[np.int64]], num_folds: int) -> list[Split]:
    """A split for each fold: it is the test part, and the next one is the validation part."""
    splits = []
    for fold in range(num_folds):
        is_test, is_val = fold_of_graph == fold, fold_of_graph == (fold + 1) % num_folds
        splits.append(_sorted_split(*(np.flatnonzero(part) for part in (~is_test & ~is_val, is_val, is_test))))
    return splits


def _sorted_split(*parts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Split:
    train, val, test = (torch.from_numpy(np.sort(part)) for part in parts)
    return Split(train, val, test)
