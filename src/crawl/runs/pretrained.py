"""Models by name: those that come with the package, in folders, and on the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path

from torch import nn

from crawl.checks import shown
from crawl.runs.packaged import local_model
from crawl.runs.saved import CONFIG, WEIGHTS
from crawl.runs.trained import TrainedModel

_PART = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_HUB_ID = re.compile(rf"{_PART}/{_PART}")


def from_pretrained(
    name: Path | str, device: str = "auto", *, model: nn.Module | None = None, revision: str | None = None
) -> TrainedModel:
    """A trained model, ready to predict.

    Args:
        name: The folder of a saved model or of a run; the name of a model that comes with the package, as `esol`; or
            the name of one on the Hugging Face hub, as `name/model`, which is downloaded if there is no such folder.
            That needs huggingface_hub (`pip install huggingface_hub`).
        device: Where to compute.
        model: The model, if it was one of one's own; it gets the weights.
        revision: For the hub: a branch, a tag or a commit.

    Raises:
        ValueError: If there is none, it is damaged, or it belongs to another architecture.
        ImportError: If huggingface_hub is needed and not installed.
    """
    is_on_hub = isinstance(name, str) and _HUB_ID.fullmatch(name) is not None and not Path(name).exists()
    if revision is not None and not is_on_hub:
        raise ValueError(f"revision={shown(revision)} is for models on the hub, and {shown(name)} is not one of them.")
    found = _downloaded(str(name), revision) if is_on_hub else local_model(name)
    return TrainedModel.load(found, device, model=model)


def _downloaded(name: str, revision: str | None) -> Path:
    """The folder, in the cache of the hub, with the two files that make a model; nothing else is downloaded."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise ImportError(
            f"There is no folder {name}, and models on the Hugging Face hub need huggingface_hub; install it with: "
            "pip install huggingface_hub"
        ) from None
    try:
        config, weights = (Path(hf_hub_download(name, file, revision=revision)) for file in (CONFIG, WEIGHTS))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"There is no folder {name}, and no model of this name could be downloaded: {reason}"
        ) from None
    if config.parent != weights.parent:  # the model was changed between the two downloads
        raise ValueError(f"{name} was changed while it was downloaded: try again.")
    return config.parent
