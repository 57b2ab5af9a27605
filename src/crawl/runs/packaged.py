"""The models that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

from crawl.checks import as_path, suggestion
from crawl.runs.saved import CONFIG, is_saved_model

_FOLDER = Path(__file__).parents[1] / "pretrained"


def packaged_models() -> dict[str, Path]:
    """The folders of the models that come with the package, by name."""
    found = (folder for folder in _FOLDER.glob("*") if is_saved_model(folder) and (folder / CONFIG).is_file())
    return {folder.name: folder for folder in sorted(found)}


def local_model(name: Path | str) -> Path:
    """The folder or file that a path names, or else the folder of the model of this name in the package.

    A path to nothing is returned as it is, unless it is a single word: then the error says which models there are.
    """
    path = as_path("path", name)
    if path.exists():
        return path
    packaged = packaged_models()
    if str(name) in packaged:
        return packaged[str(name)]
    if path.name == str(name) and not path.suffix:
        hint = suggestion(str(name), packaged)
        raise ValueError(f"There is no file or folder {path}, and no model of this name comes with the package.{hint}")
    return path
