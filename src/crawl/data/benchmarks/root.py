"""The folder where benchmarks are kept, and how they get there: downloaded, or imported from local files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import torch

from crawl.checks import suggestion, whole_number
from crawl.choices import Batches
from crawl.data.benchmarks.check import check
from crawl.data.benchmarks.download import download
from crawl.data.benchmarks.packed import PARTS, Packed, load_packed, reason, save_packed, with_categories
from crawl.data.benchmarks.record import Benchmark, Form
from crawl.data.benchmarks.registry import BENCHMARKS
from crawl.data.dataset import Dataset
from crawl.data.nodes import from_graph
from crawl.data.splits import Split
from crawl.data.store import GraphStore
from crawl.data.symmetry import symmetric

_FROM_COMPACT_FILES = "In a copy of the repository, import its compact file with: python -m reproduction import."


def data_root(root: str | Path | None = None) -> Path:
    """The folder of benchmarks: the one given, or else the variable CRAWL_DATA, or else `~/.cache/crawl`."""
    return Path(root or os.environ.get("CRAWL_DATA") or Path.home() / ".cache" / "crawl").expanduser()


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of that name; capitals do not count, nor whether words are joined by - or _. Refuses others."""
    key = name.lower().replace("-", "_")
    if key not in BENCHMARKS:
        raise ValueError(f"There is no benchmark {name!r}.{suggestion(key, BENCHMARKS)}")
    return BENCHMARKS[key]


def is_ready(name: str, root: str | Path | None = None) -> bool:
    """Whether a benchmark can be loaded without a network."""
    benchmark = find_benchmark(name)
    return benchmark.make is not None or (data_root(root) / benchmark.file).is_file()


def load_benchmark(
    name: str,
    root: str | Path | None = None,
    *,
    fold: int = 0,
    has_validation: bool = True,
    has_positions: bool = False,
    batches: Batches | None = None,
) -> Dataset:
    """A benchmark with its split, from the data root; downloaded into it if it is not there.

    Args:
        name: Its name.
        root: The data root, as `data_root` says.
        fold: The fold that is tested, where there are folds; the next one is for validation.
        has_validation: Whether there is such a fold; else it is trained on, too.
        has_positions: Whether superpixels also get their coordinates as features.
        batches: For the nodes of one graph, whether a batch is the `full` graph, as when None, or `closed`; see
            `from_graph`.

    Raises:
        ValueError: If it cannot be had, or is not what was published; one line that says what to do.
    """
    benchmark = find_benchmark(name)
    if fold and not benchmark.num_folds:
        raise ValueError(f"{benchmark.title} has no folds: leave out fold.")
    is_given = benchmark.make is not None or bool(benchmark.num_targets) or not benchmark.num_folds
    if not has_validation and is_given:
        raise ValueError(f"The validation part of {benchmark.title} is given: leave out has_validation.")
    if batches is not None and not benchmark.num_targets:
        raise ValueError(f"{benchmark.title} is a set of graphs, whose batches are graphs: leave out batches.")
    no_coordinates = f"The nodes of {benchmark.title} have no coordinates: leave out has_positions."
    if benchmark.make is not None:
        if has_positions:
            raise ValueError(no_coordinates)
        return replace(benchmark.make(fold), name=benchmark.title)
    root = data_root(root)
    path = root / benchmark.file
    if not path.is_file():
        _download(benchmark, root)
    packed = load_packed(path)
    check(benchmark, packed, path)
    if benchmark.num_targets:
        if has_positions:
            raise ValueError(no_coordinates)
        return _nodes(benchmark, packed, fold, batches or "full")
    store, y = packed.store, packed.store.y
    if benchmark.columns and y is not None:
        chosen = y[:, list(benchmark.columns)]
        store = replace(store, y=chosen / chosen.std(dim=0, correction=0))
    if has_positions:
        if packed.pos is None or store.x is None:
            raise ValueError(no_coordinates)
        store = replace(store, x=torch.cat([store.x, packed.pos], dim=1))
    return Dataset(
        name=benchmark.title if packed.origin == "published" else f"{benchmark.title} ({packed.origin})",
        store=store,
        task=benchmark.task,
        split=_split(benchmark, packed, fold, has_validation),
        node_categories=packed.node_categories,
        edge_categories=packed.edge_categories,
    )


def _nodes(benchmark: Benchmark, packed: Packed, fold: int, batches: Batches) -> Dataset:
    """The nodes of the one graph of a benchmark, split as in one of its folds."""
    assert packed.parts is not None
    data, task = packed.store.graph(0), benchmark.task
    for number, part in enumerate(PARTS, start=1):
        data[f"{part}_mask"] = (packed.parts == number).t()
    found = from_graph(data, fold=fold, task=task.kind, metric=task.metric, batches=batches, name=benchmark.title)
    return replace(found, task=task)


def import_benchmark(
    name: str, path: str | Path, root: str | Path | None = None, *, other_forms: Sequence[Form] = ()
) -> Path:
    """Fill the data root from local files; the file written.

    Args:
        name: The benchmark.
        path: A folder, below which are the published files; or one of these files.
        root: The data root, as `data_root` says.
        other_forms: Other files that hold the benchmark, which are looked for first.

    Raises:
        ValueError: If the files are not there, or are not those of the benchmark; one line that says what to do.
    """
    benchmark, path, root = find_benchmark(name), Path(path), data_root(root)
    if benchmark.make is not None:
        raise ValueError(f"{benchmark.title} is made in code: there is nothing to import.")
    if not path.exists():
        raise ValueError(f"There is no file or folder {path}.")
    forms = (*other_forms, *([benchmark.form] if benchmark.form else []))
    if not forms:
        raise ValueError(f"{benchmark.title} has no published files to import. {_FROM_COMPACT_FILES}")
    _prepare(root)
    for form in forms:
        files = _find(form.files, path)
        if files:
            return _keep(benchmark, form.read(*files), root, _listed(files))
    looked_for = "; or for ".join(", ".join(form.files) for form in forms)
    raise ValueError(f"{path} does not hold {benchmark.title}: looked for {looked_for}.")


def _download(benchmark: Benchmark, root: Path) -> None:
    form = benchmark.form
    if form is None:
        raise ValueError(f"{benchmark.title} is not in {root} and cannot be downloaded. {_FROM_COMPACT_FILES}")
    _prepare(root)
    try:
        with TemporaryDirectory(prefix=".raw-", dir=root) as raw:
            packed = form.read(*download(form, Path(raw)))
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(
            f"{benchmark.title} is not in {root} and could not be downloaded ({reason(error)}); set CRAWL_DATA to a "
            f"folder that has it, or: crawl datasets import {benchmark.name} PATH"
        ) from error
    _keep(benchmark, packed, root, "What was downloaded")


def _keep(benchmark: Benchmark, packed: Packed, root: Path, source: str) -> Path:
    """Write graphs into the data root, if they are those of the benchmark."""
    store = symmetric(packed.store) if benchmark.is_symmetric and packed.origin != "rebuilt" else packed.store
    packed = replace(packed, store=_with_targets(benchmark, store))
    check(benchmark, packed, source)
    path = root / benchmark.file
    save_packed(path, with_categories(packed, benchmark.widths))
    return path


def _with_targets(benchmark: Benchmark, store: GraphStore) -> GraphStore:
    """The targets in the form that the task has."""
    y = store.y
    if y is None:
        return store
    if benchmark.task.kind in ("binary", "multiclass"):
        is_whole = y.numel() == len(y) and bool((y == y.long()).all())
        return replace(store, y=y.long().flatten()) if is_whole else store
    return replace(store, y=(y.unsqueeze(1) if y.dim() == 1 else y).float())


def _split(benchmark: Benchmark, packed: Packed, fold: int, has_validation: bool) -> Split:
    if packed.test_fold is None:
        assert packed.split is not None
        return packed.split
    num_folds = benchmark.num_folds
    fold = whole_number("fold", fold, 0, num_folds - 1)
    is_test = packed.test_fold == fold
    is_val = (packed.test_fold == (fold + 1) % num_folds) & has_validation
    return Split(*(mask.nonzero().flatten() for mask in (~is_test & ~is_val, is_val, is_test)))


def _find(files: Sequence[str], path: Path) -> list[Path]:
    """The files, all in the given folder or in one below it, or beside a file that is one of them; [] if there are not.

    Each may also come with .gz at the end of its name, or without; if `path` is one of them, it is taken.
    """
    is_file = path.is_file()
    folders = [path.parent] if is_file else [path, *sorted(place for place in path.rglob("*") if place.is_dir())]
    for folder in folders:
        found = []
        for file in files:
            names = (file, file.removesuffix(".gz"), f"{file}.gz")
            there = [folder / name for name in names if (folder / name).is_file()]
            found += [path] if path in there else there[:1]
        if len(found) == len(files) and (path in found or not is_file):
            return found
    return []


def _listed(files: Sequence[Path]) -> str:
    """The first path, and the names of the files beside it."""
    others = ", ".join(file.name for file in files[1:])
    return f"{files[0]} with {others}" if others else str(files[0])


def _prepare(root: Path) -> None:
    """Make the data root, if it is not there, and see whether it takes files: before the work, not after it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=root).close()
    except OSError as error:
        raise ValueError(
            f"The data root {root} cannot be written to ({error.strerror}): choose another with --data-root or "
            "CRAWL_DATA."
        ) from None
