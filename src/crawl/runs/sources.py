"""Where the graphs of an experiment come from: a class for each kind of data, with the options of that kind only.

Where files are stored is not part of an experiment: paths are arguments of `load_dataset` and of a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from crawl.checks import MAX_COUNT, between, check_fields, shown, whole_number
from crawl.choices import Batches
from crawl.plain import LEFT_OUT, tagged

Substructure = Literal["triangle", "tailed_triangle", "star", "cycle4"]

WAYS_TO_SPLIT = ("random", "stratified", "scaffold")  # splits that are drawn here; others are given
_FRACTIONS = (0.8, 0.1, 0.1)


class _Checked:
    """Settings that must have the types of their annotations."""

    def __post_init__(self) -> None:
        check_fields(self, "data", at_least_0=("fold", "laplacian"))


@dataclass(frozen=True)
class Csl(_Checked):
    """Cyclic skip link graphs, made in code.

    Attributes:
        fold: Which of the five folds is the test split.
        laplacian: Use this many Laplacian eigenvectors as node features.
    """

    name: ClassVar[str] = "csl"
    fold: int = 0
    laplacian: int = 0


@dataclass(frozen=True)
class Counting(_Checked):
    """Random graphs, made in code, and how often a substructure occurs.

    Attributes:
        target: What to count.
    """

    name: ClassVar[str] = "counting"
    target: Substructure = "triangle"


@dataclass(frozen=True)
class _Files:
    """Data of one's own.

    Attributes:
        metric: The score; the usual one of the task when not given.
        split: `random`, `stratified`, `scaffold` or `files` (molecules), the name of a column of a table, or a file.
        fractions: The shares of the training, validation and test splits, if these are drawn.
    """

    metric: str | None = None
    split: str = "random"
    fractions: tuple[float, float, float] = _FRACTIONS

    def __post_init__(self) -> None:
        if not isinstance(self.split, str):
            raise ValueError(f"data.split must be a way to split, a column or a file, not {shown(self.split)}.")
        if self.split not in (*WAYS_TO_SPLIT, "auto") and self.fractions != type(self).fractions:
            raise ValueError(
                f"data.fractions={shown(self.fractions)} cannot change the split {self.split!r}, which is given: leave "
                "out one of them."
            )


@dataclass(frozen=True)
class _Graphs(_Files):
    """Graphs of one's own, which may be cross-validated.

    Attributes:
        num_folds: Draw this many folds, at least 3, by `split`, and test on one of them; 0 for a single split.
        fold: Which of the folds is the test split; the next one is for validation.
    """

    num_folds: int = field(default=0, metadata=LEFT_OUT)
    fold: int = field(default=0, metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("data.num_folds", self.num_folds, 0, MAX_COUNT)
        whole_number("data.fold", self.fold, 0, max(self.num_folds - 1, 0))
        if not self.num_folds:
            return
        whole_number("The number of folds", self.num_folds, 3, MAX_COUNT)
        if self.split not in WAYS_TO_SPLIT:
            raise ValueError(
                f"Folds are drawn, so data.split={self.split!r}, which gives the parts, cannot be used: take "
                f"{', '.join(WAYS_TO_SPLIT)}, or leave out the folds."
            )
        if self.fractions != _FRACTIONS:
            raise ValueError(f"data.fractions={shown(self.fractions)} cannot change the sizes of folds: leave it out.")


@dataclass(frozen=True)
class TU(_Graphs):
    """A folder in the TU format."""

    name: ClassVar[str] = "tu"


@dataclass(frozen=True)
class _WithTable(_Graphs):
    """Data of one's own with a table.

    Attributes:
        targets: The target columns.
        task: The kind of targets; `auto` finds it from their values.
        bad_rows: Skip and report rows that cannot be read, or refuse the table.
        weight: The column that says how much each row counts in training; all count alike when not given.
    """

    targets: tuple[str, ...] = ()
    task: Literal["auto", "regression", "binary", "multiclass", "multilabel"] = "auto"
    bad_rows: Literal["skip", "refuse"] = "skip"
    weight: str | None = field(default=None, metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.weight, str | None):
            raise ValueError(f"data.weight must be the name of a column, not {shown(self.weight)}.")


@dataclass(frozen=True)
class Folder(_WithTable):
    """A folder of GraphML or JSON files with a table of labels."""

    name: ClassVar[str] = "folder"


@dataclass(frozen=True)
class Csv(_WithTable):
    """Molecules as SMILES in a CSV file, or in three, for training, validation and test, with the split `files`.

    Attributes:
        smiles: The SMILES column, or several for molecules side by side; found by its name when not given.
        columns: Columns that the head of the network sees besides the molecule: numbers, or words as categories.
        descriptors: Let the head of the network see RDKit's 2D descriptors, too.
        level: Whether targets are of the molecule, or of each atom or bond, in JSON lists such as [0.1, 0.3].
    """

    name: ClassVar[str] = "csv"
    smiles: tuple[str, ...] = ()
    columns: tuple[str, ...] = field(default=(), metadata=LEFT_OUT)
    descriptors: bool = field(default=False, metadata=LEFT_OUT)
    level: Literal["molecule", "atom", "bond"] = field(default="molecule", metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        super().__post_init__()
        smiles: Any = self.smiles
        if smiles is None or isinstance(smiles, str):  # as older versions had it
            object.__setattr__(self, "smiles", () if smiles is None else (smiles,))


@dataclass(frozen=True)
class Packed:
    """Graphs in a folder of `crawl data pack`, which need not fit into memory; it has the targets and the split.

    Attributes:
        metric: The score; the one that the data were packed with when not given.
    """

    name: ClassVar[str] = "packed"
    metric: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, "data")


@dataclass(frozen=True)
class Nodes(_Files):
    """One graph in a folder: nodes.csv with ids, features, a label and a split, and edges.csv; or graph.crawl and
    labels.csv.

    Attributes:
        split: The column split of the table if there is one (`auto`), another column, `random`, `stratified` or a file.
        label: The column of the table to predict; where it is empty, a node has no target.
        task: The kind of targets; `auto` finds it from their values.
        directed: Walk along edges from source to target only; otherwise an edge, which is listed once, leads both ways.
        batches: Whether a batch is the `full` graph with all targets, or `closed` walks around some of them.
    """

    name: ClassVar[str] = "nodes"
    split: str = "auto"
    label: str = "label"
    task: Literal["auto", "regression", "binary", "multiclass"] = "auto"
    directed: bool = False
    batches: Batches = "full"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, "data")


@dataclass(frozen=True)
class Links(_Files):
    """The links of one graph in a folder: edges.csv with ends, features and a split, perhaps nodes.csv; or graph.crawl.

    Attributes:
        metric: The score: roc_auc when not given, ap, accuracy, macro_f1, mrr, or hits@k with a number k.
        split: The column split of edges.csv if there is one (`auto`), another column, or `random`.
        fractions: The shares of training, validation and test among the links, if these are drawn.
        num_negatives: How many pairs that are not linked there are for each that is.
        supervised_share: The share of the training links that an epoch hides and predicts.
        batches: Whether a batch is the `full` graph with all targets, or `closed` walks around some of them.
    """

    name: ClassVar[str] = "links"
    split: str = "auto"
    fractions: tuple[float, float, float] = (0.85, 0.05, 0.1)
    num_negatives: int = 1
    supervised_share: float = 0.3
    batches: Batches = "full"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, "data")
        whole_number("data.num_negatives", self.num_negatives)
        between("data.supervised_share", self.supervised_share, 0, 1)


BenchmarkName = Literal[
    "zinc",
    "molpcba",
    "pascalvoc_sp",
    "peptides_func",
    "peptides_struct",
    "counting_triangle",
    "counting_tailed_triangle",
    "counting_star",
    "counting_cycle4",
    "counting_all",
]
SuperpixelName = Literal["mnist", "cifar10"]
SocialName = Literal["collab", "imdb_multi", "reddit_binary"]
HeterophilousName = Literal["minesweeper", "tolokers"]
PlanetoidName = Literal["cora"]


@dataclass(frozen=True)
class Benchmark(_Checked):
    """A benchmark in the data root, with the split that it comes with."""

    name: BenchmarkName = "zinc"


@dataclass(frozen=True)
class Superpixels(_Checked):
    """Images as graphs of superpixels, in the data root.

    Attributes:
        has_positions: Give superpixels their coordinates as features, too.
    """

    name: SuperpixelName = "mnist"
    has_positions: bool = False


@dataclass(frozen=True)
class Social(_Checked):
    """Social graphs in the data root, in ten folds.

    Attributes:
        fold: Which of the ten folds is the test split.
        has_validation: Keep a fold for validation out of training.
    """

    name: SocialName = "collab"
    fold: int = 0
    has_validation: bool = True


@dataclass(frozen=True)
class Heterophilous(_Checked):
    """One graph in the data root whose nodes are classified, with ten splits.

    Attributes:
        fold: Which of the ten splits.
        batches: Whether a batch is the `full` graph with all targets, or `closed` walks around some of them.
    """

    name: HeterophilousName = "minesweeper"
    fold: int = 0
    batches: Batches = "full"


@dataclass(frozen=True)
class Planetoid(_Checked):
    """One graph of papers in the data root, with its public split.

    Attributes:
        batches: Whether a batch is the `full` graph with all targets, or `closed` walks around some of them.
    """

    name: PlanetoidName = "cora"
    batches: Batches = "full"


@dataclass(frozen=True)
class GivenData:
    """A data set that was given in Python."""

    name: ClassVar[str] = "given"


WITHOUT_NUMBERS = (  # benchmarks whose targets are classes or labels
    *("csl", "molpcba", "pascalvoc_sp", "peptides_func"),
    *get_args(SuperpixelName),
    *get_args(SocialName),
    *get_args(HeterophilousName),
    *get_args(PlanetoidName),
    "links",
)
OF_NODES = ("pascalvoc_sp", *get_args(HeterophilousName), *get_args(PlanetoidName), "nodes")  # which have the targets
OF_PAIRS = ("links",)
OwnFiles = Csv | TU | Folder | Packed | Nodes | Links  # which need a path
InRoot = Benchmark | Superpixels | Social | Heterophilous | Planetoid  # which need a data root
WithFolds = Csl | Social | Heterophilous
OwnGraphs = Csv | TU | Folder  # of which folds can be drawn
OneGraphData = Heterophilous | Planetoid | Nodes | Links  # which have `batches`
Data = (
    Csl
    | Counting
    | Csv
    | TU
    | Folder
    | Packed
    | Nodes
    | Links
    | Benchmark
    | Superpixels
    | Social
    | Heterophilous
    | Planetoid
    | GivenData
)

KINDS: dict[str, type[Data]] = {
    kind.name: kind for kind in (GivenData, Csl, Counting, Csv, TU, Folder, Packed, Nodes, Links)
}
for _kind, _names in (
    *((Benchmark, BenchmarkName), (Superpixels, SuperpixelName), (Social, SocialName)),
    *((Heterophilous, HeterophilousName), (Planetoid, PlanetoidName)),
):
    KINDS |= dict.fromkeys(get_args(_names), _kind)
tagged(Data, KINDS)


def existing_path(data: Data, path: str | Path | None) -> Path:
    """The file or folder of data of one's own. Refuses one that is not given, or not there."""
    if path is None:
        raise ValueError(
            f"Data of the kind {data.name!r} need --data.path (in Python path=…), the file or folder to read."
        )
    if not Path(path).exists():
        raise ValueError(f"There is no file or folder {path}.")
    return Path(path)
