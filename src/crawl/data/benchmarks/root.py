"""The folder where benchmarks are kept, and how they get there: downloaded, or imported from local files."""

from __future__ import annotations

import difflib
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from crawl.data.benchmarks.packed import Packed, load_packed, save_packed, with_categories
from crawl.data.benchmarks.record import Benchmark, Loader, check
from crawl.data.benchmarks.registry import BENCHMARKS
from crawl.data.dataset import Dataset
from crawl.data.splits import Split
from crawl.data.store import GraphStore
from crawl.graph import whole_number

_SECONDS_FOR_AN_ANSWER = 20  # of a server, before it counts as out of reach


def data_root(root: str | Path | None = None) -> Path:
    """The folder of benchmarks: the one given, or that of the variable CRAWL_DATA, or `~/.cache/crawl`."""
    return Path(root or os.environ.get("CRAWL_DATA") or Path.home() / ".cache" / "crawl").expanduser()


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of that name; capitals do not count, nor whether words are joined by - or _.

    Raises:
        ValueError: If there is none.
    """
    key = name.lower().replace("-", "_")
    if key not in BENCHMARKS:
        near = difflib.get_close_matches(key, BENCHMARKS, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known are: {', '.join(BENCHMARKS)}."
        raise ValueError(f"There is no benchmark {name!r}. {hint}")
    return BENCHMARKS[key]


def is_ready(name: str, root: str | Path | None = None) -> bool:
    """Whether a benchmark can be loaded without a network."""
    benchmark = find_benchmark(name)
    return benchmark.make is not None or _file(benchmark, data_root(root)).is_file()


def load_benchmark(
    name: str,
    root: str | Path | None = None,
    *,
    fold: int = 0,
    has_validation: bool = True,
    has_positions: bool = False,
) -> Dataset:
    """A benchmark with its split, from the data root; downloaded into it if it is not there.

    Args:
        name: Its name.
        root: The data root, as `data_root` says.
        fold: The fold that is tested, where there are folds; the next one is for validation.
        has_validation: Whether there is such a fold; else it is trained on, too.
        has_positions: Whether superpixels also get their places as features.

    Raises:
        ValueError: If it cannot be had, or is not what was published; one line that says what to do.
    """
    benchmark = find_benchmark(name)
    if benchmark.make is not None:
        return replace(benchmark.make(fold), name=benchmark.title)
    root = data_root(root)
    path = _file(benchmark, root)
    if path.is_file():
        packed = load_packed(path)
        check(benchmark, packed, path)
    else:
        packed = _downloaded(benchmark, root)
    return _as_dataset(benchmark, packed, fold, has_validation, has_positions)


def import_benchmark(name: str, path: str | Path, root: str | Path | None = None) -> Path:
    """Fill the data root from local files; the file written.

    Args:
        name: The benchmark.
        path: A folder, below which lie the files that the loader of PyG or OGB downloads, or those that the module
            `compact` or `images` describes; or one of these files.
        root: The data root, as `data_root` says.

    Raises:
        ValueError: If the files are not there, or are not those of the benchmark; one line that says what to do.
    """
    benchmark, path, root = find_benchmark(name), Path(path), data_root(root)
    if benchmark.make is not None:
        raise ValueError(f"{benchmark.title} is made in code: there is nothing to import.")
    if not path.exists():
        raise ValueError(f"There is no file or folder {path}.")
    for form in benchmark.forms:
        folder = _folder_with(form.files, path)
        if folder is not None:
            return _keep(benchmark, form.read(folder), root, folder / form.files[0])
    loader = benchmark.loader
    folder = None if loader is None else _folder_with(loader.files, path)
    if loader is None or folder is None:
        wanted = [", ".join(form.files) for form in benchmark.forms] + ([", ".join(loader.files)] if loader else [])
        raise ValueError(f"{path} does not hold {benchmark.title}: looked for {'; or for '.join(wanted)}.")
    _copy(loader, folder, root / "raw")
    try:
        packed = loader.read(root / "raw")
    except ImportError:
        raise
    except Exception as error:  # whatever PyG and pickle make of a damaged file
        raise ValueError(f"{folder} cannot be read as {benchmark.title} ({error}): get the files again.") from error
    return _keep(benchmark, packed, root, folder)


def _file(benchmark: Benchmark, root: Path) -> Path:
    return root / f"{benchmark.file}.npz"


def _downloaded(benchmark: Benchmark, root: Path) -> Packed:
    command = f"crawl datasets import {benchmark.name} PATH"
    if benchmark.loader is None:
        raise ValueError(f"{benchmark.title} is not in {root} and cannot be downloaded; get its file, then: {command}")
    try:
        with _impatient():
            packed = benchmark.loader.read(root / "raw")
    except ImportError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{benchmark.title} is not in {root} and could not be downloaded ({reason}); set CRAWL_DATA to a folder "
            f"that has it, or: {command}"
        ) from error
    return load_packed(_keep(benchmark, packed, root, root / "raw" / benchmark.loader.folder))


def _keep(benchmark: Benchmark, packed: Packed, root: Path, source: Path) -> Path:
    """Write graphs into the data root, if they are those of the benchmark."""
    packed = replace(packed, store=_with_targets(benchmark, packed.store))
    check(benchmark, packed, source)
    if benchmark.is_symmetric and packed.origin != "rebuilt":
        packed = replace(packed, store=symmetric(packed.store))
    path = _file(benchmark, root)
    save_packed(path, with_categories(packed, benchmark.widths))
    return path


def _with_targets(benchmark: Benchmark, store: GraphStore) -> GraphStore:
    """The targets in the form that the task has."""
    y = store.y
    if y is None:
        return store
    if benchmark.task.kind in ("binary", "multiclass"):
        return replace(store, y=y.long().flatten())
    return replace(store, y=(y.unsqueeze(1) if y.dim() == 1 else y).float())


def _as_dataset(benchmark: Benchmark, packed: Packed, fold: int, has_validation: bool, has_positions: bool) -> Dataset:
    store, y = packed.store, packed.store.y
    assert y is not None
    if benchmark.column is not None:
        column = y[:, benchmark.column : benchmark.column + 1]
        store = replace(store, y=column / column.std(correction=0))
    if has_positions:
        if packed.pos is None or store.x is None:
            raise ValueError(f"The nodes of {benchmark.title} have no places: leave out positions.")
        store = replace(store, x=torch.cat([store.x, packed.pos], dim=1))
    return Dataset(
        name=benchmark.title if packed.origin == "published" else f"{benchmark.title} ({packed.origin})",
        store=store,
        task=benchmark.task,
        split=_split(benchmark, packed, fold, has_validation),
        node_categories=packed.node_categories,
        edge_categories=packed.edge_categories,
    )


def _split(benchmark: Benchmark, packed: Packed, fold: int, has_validation: bool) -> Split:
    if packed.test_fold is None:
        assert packed.split is not None
        return packed.split
    num_folds = benchmark.num_folds
    fold = whole_number("fold", fold, 0, num_folds - 1)
    is_test = packed.test_fold == fold
    is_val = (packed.test_fold == (fold + 1) % num_folds) & has_validation
    return Split(*(mask.nonzero().flatten() for mask in (~is_test & ~is_val, is_val, is_test)))


def symmetric(store: GraphStore) -> GraphStore:
    """The same graphs with the reverse of every edge, where it lacks; it has the features of the edge."""
    sizes = store.node_ptr.diff()
    graph = torch.arange(len(store)).repeat_interleave(store.edge_ptr.diff())
    base = store.node_ptr[:-1][graph]
    source, target = store.edge_index + base
    keys = source * store.num_nodes + target
    lacking = (~torch.isin(target * store.num_nodes + source, keys)).nonzero().flatten()
    edges = torch.cat([torch.arange(len(graph)), lacking])
    graph = graph[edges]
    edge_index = torch.cat([store.edge_index, store.edge_index[:, lacking].flip(0)], dim=1)
    order = graph.argsort(stable=True)
    num_edges = graph.bincount(minlength=len(sizes))
    return replace(
        store,
        edge_ptr=torch.cat([num_edges.new_zeros(1), num_edges.cumsum(0)]),
        edge_index=edge_index[:, order],
        edge_attr=None if store.edge_attr is None else store.edge_attr[edges[order]],
    )


def _folder_with(files: Sequence[str], path: Path) -> Path | None:
    """The folder that holds all the files: the given one or one below it; any of them may be there without .gz."""
    if path.is_file():
        path = path.parent
    for folder in (path, *sorted(place for place in path.rglob("*") if place.is_dir())):
        if all(any((folder / name).is_file() for name in _spellings(file)) for file in files):
            return folder
    return None


def _spellings(file: str) -> tuple[str, ...]:
    return (file, file.removesuffix(".gz"), f"{file}.gz")


def _copy(loader: Loader, folder: Path, raw: Path) -> None:
    """Put files where the loader expects them, without what it made of others before."""
    target = raw / loader.folder
    for old in (target / "processed", target.parent / "processed", target.parent / "subset"):
        shutil.rmtree(old, ignore_errors=True)
    for file in loader.files:
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        if (folder / file).resolve() != (target / file).resolve():
            shutil.copyfile(folder / file, target / file)


@contextmanager
def _impatient() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_SECONDS_FOR_AN_ANSWER)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
