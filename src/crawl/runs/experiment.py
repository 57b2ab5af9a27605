"""An experiment: everything a run depends on, as plain values that survive JSON."""

from __future__ import annotations

import dataclasses
import difflib
import json
import sys
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal

from crawl.checks import real_number, share, whole_number
from crawl.choices import Head, Pool, Precision, Strategy
from crawl.files import parse_json
from crawl.training.settings import Evaluation, Training

DataName = Literal[
    "given",
    "csl",
    "counting",
    "csv",
    "tu",
    "folder",
    "zinc",
    "cifar10",
    "mnist",
    "molpcba",
    "pascalvoc_sp",
    "peptides_func",
    "peptides_struct",
    "collab",
    "imdb_multi",
    "reddit_binary",
    "counting_triangle",
    "counting_tailed_triangle",
    "counting_star",
    "counting_cycle4",
    "counting_all",
]
_WIDEST, _DEEPEST = 10_000, 1_000  # far beyond what is useful; a typing error may ask for more than a machine has
_FORMER = (("data.is_synthetic", False),)  # keys of older versions, with the only value that still means something
ModelName = Literal["crawl", "gcn", "gin", "gine", "gat", "sage", "gated_gcn", "pna"]


@dataclass(frozen=True)
class Data:
    """Which graphs, which targets, which split.

    Attributes:
        name: `csl` and `counting` are made in code; `csv` (molecules as SMILES), `tu` (a folder in the TU format) and
            `folder` (GraphML or JSON files with a table of labels) read `path`; `given` is a data set that was given in
            Python; others are benchmarks in the data root.
        path: The file or folder.
        root: The data root; the variable CRAWL_DATA or ~/.cache/crawl when None.
        targets: The target columns (csv, folder).
        smiles: The SMILES column (csv); found by its name when None.
        task: What kind of targets; found from their values with `auto`.
        metric: The score; the usual one of the task when None.
        split: `random`, `stratified`, `scaffold`, the name of a column, or a file (csv, tu, folder); `given` for all
            others, which come with their split.
        fractions: The shares of the training, validation and test splits.
        fold: Which of the folds is the test part (csl, collab, imdb_multi, reddit_binary).
        has_validation: Keep a fold for validation (collab, imdb_multi, reddit_binary); else it is trained on, too.
        has_positions: Give superpixels their coordinates as features, too (mnist, cifar10).
        laplacian: Use this many Laplacian eigenvectors as node features (csl).
        target: What to count (counting).
        bad_rows: `skip` and report rows that cannot be read, or `refuse` the file.
    """

    name: DataName = "csl"
    path: str | None = None
    root: str | None = None
    targets: tuple[str, ...] = ()
    smiles: str | None = None
    task: Literal["auto", "regression", "binary", "multiclass", "multilabel"] = "auto"
    metric: str | None = None
    split: str = "random"
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)
    fold: int = 0
    has_validation: bool = True
    has_positions: bool = False
    laplacian: int = 0
    target: Literal["triangle", "tailed_triangle", "star", "cycle4"] = "triangle"
    bad_rows: Literal["skip", "refuse"] = "skip"

    def __post_init__(self) -> None:
        whole_number("data.fold", self.fold, 0)
        whole_number("data.laplacian", self.laplacian, 0)


@dataclass(frozen=True)
class Walk:
    """The walks: their law, their length, where they start, how far back the bits look. See `crawl.CRaWl`.

    `p` and `q` are those of `node2vec`, which needs both.
    """

    strategy: Strategy = "non_backtracking"
    num_steps: int = 50
    num_eval_steps: int = 150
    start_share: float = 1.0
    window_size: int = 8
    p: float | None = None
    q: float | None = None

    def __post_init__(self) -> None:
        whole_number("walk.num_steps", self.num_steps)
        whole_number("walk.num_eval_steps", self.num_eval_steps)
        whole_number("walk.window_size", self.window_size, 0, 32)
        share("walk.start_share", self.start_share)
        if self.p is not None:
            real_number("walk.p", self.p, 1e-3, sys.float_info.max, wanted="a number of at least 0.001")
        if self.q is not None:
            real_number("walk.q", self.q, 1e-3, 1e3)


@dataclass(frozen=True)
class Model:
    """The network. See `crawl.CRaWl`; all but `crawl` are message-passing networks to compare with.

    Of those, `gcn`, `gin` and `sage` do not see edge features.
    """

    name: ModelName = "crawl"
    hidden_channels: int = 128
    num_layers: int = 3
    kernel_size: int | None = None
    identity: bool = True
    adjacency: bool = True
    virtual_node: bool = False
    pool: Pool = "mean"
    head: Head = "mlp"
    dropout: float = 0.0
    precision: Precision = "tf32"

    def __post_init__(self) -> None:
        whole_number("model.hidden_channels", self.hidden_channels, 1, _WIDEST)
        whole_number("model.num_layers", self.num_layers, 1, _DEEPEST)
        if self.kernel_size is not None:
            whole_number("model.kernel_size", self.kernel_size, 1, _WIDEST)
        if not 0 <= real_number("model.dropout", self.dropout) < 1:
            raise ValueError(f"model.dropout must be 0 or more and below 1, not {self.dropout}.")


@dataclass(frozen=True)
class Experiment:
    """A run: data, walks, model, training, evaluation and the seed of everything random.

    Attributes:
        name: What the run's folder is called.
    """

    name: str = "run"
    data: Data = field(default_factory=Data)
    walk: Walk = field(default_factory=Walk)
    model: Model = field(default_factory=Model)
    training: Training = field(default_factory=Training)
    evaluation: Evaluation = field(default_factory=Evaluation)
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("seed", self.seed, 0, 2**64 - 1)

    def to_json(self) -> str:
        """The experiment as JSON.

        Raises:
            ValueError: If one of its values is not a plain one.
        """
        try:
            return json.dumps(dataclasses.asdict(self), indent=2) + "\n"
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"The experiment holds a value that is not a plain one: {error}.") from None

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """The experiment written by `to_json`.

        Raises:
            ValueError: For a key that does not exist, with the one that was probably meant, or a value of a wrong type.
        """
        try:
            values = parse_json(text)
        except (TypeError, ValueError) as error:
            raise ValueError(f"The configuration is not valid JSON: {error}.") from None
        experiment = _build(cls, values, "")
        assert isinstance(experiment, cls)
        return experiment


def _build(kind: type, values: Any, place: str) -> Any:
    """An instance of a dataclass from nested dictionaries."""
    if not isinstance(values, dict):
        raise ValueError(f"The configuration needs a dictionary at {place or 'its top'}, not {values!r}.")
    hints = typing.get_type_hints(kind)
    values = {key: value for key, value in values.items() if (f"{place}{key}", value) not in _FORMER}
    for key in values:
        if key not in hints:
            near = difflib.get_close_matches(key, hints, n=1)
            meant = f" Did you mean {place}{near[0]}?" if near else f" Known are: {', '.join(hints)}."
            raise ValueError(f"The configuration has no key {place}{key}.{meant}")
    return kind(**{key: _value(hints[key], value, f"{place}{key}") for key, value in values.items()})


def _value(hint: Any, value: Any, place: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), value, f"{place}.")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        if value is None and type(None) in arguments:
            return None
        hint = next(argument for argument in arguments if argument is not type(None))
        return _value(hint, value, place)
    if origin is Literal and value not in arguments:
        raise ValueError(f"{place} must be one of {', '.join(map(str, arguments))}, not {value!r}.")
    if origin is tuple:
        return _tuple(arguments, value, place)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return real_number(place, value)
    if isinstance(hint, type) and not (isinstance(value, hint) and isinstance(value, bool) == (hint is bool)):
        raise ValueError(f"{place} must be of type {hint.__name__}, not {value!r}.")
    return value


def _tuple(hints: tuple[Any, ...], values: Any, place: str) -> tuple[Any, ...]:
    """A tuple from a list; `hints` are those of its items, or one and an ellipsis for any number."""
    if not isinstance(values, list):
        raise ValueError(f"{place} must be a list, not {values!r}.")
    hints = hints[:1] * len(values) if hints[-1] is Ellipsis else hints
    if len(values) != len(hints):
        raise ValueError(f"{place} must have {len(hints)} items, not {len(values)}.")
    return tuple(
        _value(hint, value, f"{place}[{i}]") for i, (hint, value) in enumerate(zip(hints, values, strict=True))
    )
