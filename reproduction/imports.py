"""Files other than the published ones that benchmarks are imported from: compact files, and images."""

from __future__ import annotations

from pathlib import Path

from crawl.data.benchmarks import find_benchmark, import_benchmark
from crawl.data.benchmarks.record import Form
from reproduction import compact, images

_COUNTING = (Form(files=("counting.npz",), read=compact.counting),)
FORMS: dict[str, tuple[Form, ...]] = {
    "zinc": (Form(files=("zinc12k.npz",), read=compact.zinc),),
    "cifar10": (
        Form(files=images.CIFAR10_FILES, read=images.cifar10),
        Form(files=images.CIFAR10_PICTURES, read=images.cifar10_pictures),
    ),
    "mnist": (Form(files=images.MNIST_FILES, read=images.mnist),),
    "peptides_func": (
        Form(files=("peptide_multi_class_dataset.csv.gz", "peptides_split.npz"), read=compact.peptides_func),
    ),
    "peptides_struct": (
        Form(files=("peptide_structure_dataset.csv.gz", "peptides_split.npz"), read=compact.peptides_struct),
    ),
    "collab": (Form(files=("collab.npz",), read=compact.social),),
    "imdb_multi": (Form(files=("imdb-multi.npz",), read=compact.social),),
    "reddit_binary": (Form(files=("reddit-binary.npz",), read=compact.social),),
    "minesweeper": (Form(files=("minesweeper.npz",), read=compact.nodes),),
    "tolokers": (Form(files=("tolokers.npz",), read=compact.nodes),),
    "cora": (Form(files=("cora.npz",), read=compact.cora),),
    **{f"counting_{name}": _COUNTING for name in ("triangle", "tailed_triangle", "star", "cycle4", "all")},
}


def import_files(name: str, path: str | Path, root: str | Path | None = None) -> Path:
    """Fill the data root from local files, compact, published or images; the file written.

    Raises:
        ValueError: As `import_benchmark` does.
    """
    return import_benchmark(name, path, root, other_forms=FORMS.get(find_benchmark(name).name, ()))
